"""The composable-resource operator: it turns requests for devices into resources, and resources into orders to the fabric."""

from dds_lab.actors.operator.operator import Operator as Operator
from dds_lab.actors.operator.operator_settings import OperatorSettings as OperatorSettings
from dds_lab.actors.operator.operator_settings import Plugins as Plugins
