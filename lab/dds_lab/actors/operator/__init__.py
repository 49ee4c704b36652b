"""The composable-resource operator: requests for devices become resources, and resources become orders to the
fabric."""

from dds_lab.actors.operator.operator import Operator as Operator
from dds_lab.actors.operator.operator_settings import OperatorSettings as OperatorSettings
from dds_lab.actors.operator.operator_settings import Plugins as Plugins
