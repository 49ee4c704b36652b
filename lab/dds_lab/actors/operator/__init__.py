"""The composable-resource operator: it turns requests for devices into resources, and resources into orders to the fabric."""

from dds_lab.actors.operator.names import Plugins as Plugins
from dds_lab.actors.operator.operator import Operator as Operator
