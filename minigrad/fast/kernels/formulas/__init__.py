"""What elementwise kernels compute: a formula of single float32 numbers for each op, and one for its gradient.

The gradient of `f` is `f_backward`; where f has two operands a and b, those are `f_backward_a` and `f_backward_b`.

An op of `minigrad.ops` says the same in NumPy's notation, for small arrays and other dtypes. Where a formula only adds,
multiplies, divides, compares and takes roots, its bits are NumPy's, so nobody can tell which of them computed a result. So
are those of quotients and what remains of them, as float64 has room for both.
Others, such as e^x and all that is made of it, may differ in the last digit or two: from an array to a larger one, as from
one library to another. NaN goes through, infinities give the limits, and -0 keeps its sign, as in NumPy.
"""
from .activations import (
    elu, elu_backward, hardsigmoid, hardsigmoid_backward, hardswish, hardswish_backward, hardtanh, hardtanh_backward,
    leaky_relu, leaky_relu_backward, logsigmoid, logsigmoid_backward, mish, mish_backward, relu, relu_backward, silu,
    silu_backward, softplus, softplus_backward, softsign, softsign_backward, tanhshrink, tanhshrink_backward,
)
from .arithmetic import (
    absolute, absolute_backward, add, ceil, cube, cube_backward, div, div_backward_b, floor, floor_divide, fmod,
    fmod_backward_b, fourth, fourth_backward, lerp, lerp_backward_weight, mul, neg, nothing, power, power_backward_a,
    power_backward_b, remainder, remainder_backward_b, rint, root_backward, scaled_difference, sign, square,
    square_backward, sub, trunc,
)
from .casts import CASTS
from .comparison import (
    bitwise_and, bitwise_or, bitwise_xor, clamp, clamp_backward, equal, greater, greater_equal, invert, isfinite, isinf,
    isnan, less, less_equal, logical_and, logical_not, logical_or, logical_xor, maximum, maximum_backward_a, minimum,
    nan_to_num, not_equal, where,
)
from .elementary import (
    arccosh_backward, arcsinh_backward, arctanh_backward, cosh, cosh_backward, erf, erf_backward, erfc, erfc_backward,
    exp, exp2, exp2_backward, exp_backward, expm1, expm1_backward, log, log10, log10_backward, log1p, log1p_backward,
    log2, log2_backward, log_backward, logaddexp, logaddexp_backward_a, rsqrt, rsqrt_backward, sigmoid, sigmoid_backward,
    sinh, sinh_backward, sqrt, sqrt_backward, tanh, tanh_backward,
)
from .losses import (
    absolute_error, absolute_error_backward, binary_cross_entropy, binary_cross_entropy_backward_a,
    binary_cross_entropy_backward_b, huber, huber_backward, logits_loss, logits_loss_backward_a, logits_loss_backward_b,
    logits_loss_backward_c, smooth_l1, smooth_l1_backward, squared_error, squared_error_backward,
)
from .trigonometric import (
    arccos_backward, arcsin_backward, arctan, arctan2, arctan2_backward_a, arctan2_backward_b, arctan_backward, cos,
    cos_backward, sin, sin_backward, tan, tan_backward,
)
