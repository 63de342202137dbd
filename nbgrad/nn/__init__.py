"""Blocks to build networks of, with torch's names, arguments, defaults and ``state_dict`` keys."""

from nbgrad.nn import functional as functional, init as init
from nbgrad.nn.activation import (
    LogSoftmax as LogSoftmax,
    ReLU as ReLU,
    Sigmoid as Sigmoid,
    Softmax as Softmax,
    Tanh as Tanh,
)
from nbgrad.nn.container import Sequential as Sequential
from nbgrad.nn.linear import Flatten as Flatten, Identity as Identity, Linear as Linear
from nbgrad.nn.loss import CrossEntropyLoss as CrossEntropyLoss, MSELoss as MSELoss
from nbgrad.nn.module import Module as Module
from nbgrad.nn.parameter import Parameter as Parameter
