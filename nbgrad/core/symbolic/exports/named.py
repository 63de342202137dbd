"""The functions of torch that a file with a program may name: a list, so that no other function is ever looked up.

It has the functions that the rows of the op table, their gradients and the optimizers call on raw tensors, and those
that a user's function of torch tensors calls: they compute tensors from tensors, and change nothing else. Another
version of torch may lack some. A program with a step that is not listed is not saved. ``tests/core/symbolic`` saves a
program of every row: a new row whose steps are not listed fails there.
"""


def _listed(names: dict[str, str]) -> dict[str, frozenset[str]]:
    return {space: frozenset(text.split()) for space, text in names.items()}


NAMED = _listed(
    {
        "torch": """
            _conj _ctc_loss _cudnn_rnn _cudnn_rnn_flatten_weight _dirichlet_grad _embedding_bag _fft_c2c
            _fft_c2r _fft_r2c _foreach_abs _foreach_abs_ _foreach_acos _foreach_acos_ _foreach_add
            _foreach_add_ _foreach_addcdiv _foreach_addcdiv_ _foreach_addcmul _foreach_addcmul_
            _foreach_asin _foreach_asin_ _foreach_atan _foreach_atan_ _foreach_ceil _foreach_ceil_
            _foreach_clamp_max _foreach_clamp_max_ _foreach_clamp_min _foreach_clamp_min_ _foreach_clone
            _foreach_copy_ _foreach_cos _foreach_cos_ _foreach_cosh _foreach_cosh_ _foreach_div
            _foreach_div_ _foreach_erf _foreach_erf_ _foreach_erfc _foreach_erfc_ _foreach_exp _foreach_exp_
            _foreach_expm1 _foreach_expm1_ _foreach_floor _foreach_floor_ _foreach_frac _foreach_frac_
            _foreach_lerp _foreach_lerp_ _foreach_lgamma _foreach_lgamma_ _foreach_log _foreach_log10
            _foreach_log10_ _foreach_log1p _foreach_log1p_ _foreach_log2 _foreach_log2_ _foreach_log_
            _foreach_max _foreach_maximum _foreach_maximum_ _foreach_minimum _foreach_minimum_ _foreach_mm
            _foreach_mul _foreach_mul_ _foreach_neg _foreach_neg_ _foreach_norm _foreach_pow _foreach_pow_
            _foreach_powsum _foreach_reciprocal _foreach_reciprocal_ _foreach_round _foreach_round_
            _foreach_rsqrt _foreach_rsqrt_ _foreach_sigmoid _foreach_sigmoid_ _foreach_sign _foreach_sign_
            _foreach_sin _foreach_sin_ _foreach_sinh _foreach_sinh_ _foreach_sqrt _foreach_sqrt_
            _foreach_sub _foreach_sub_ _foreach_tan _foreach_tan_ _foreach_tanh _foreach_tanh_
            _foreach_trunc _foreach_trunc_ _foreach_zero_ _fused_adagrad_ _fused_adam_ _fused_adamw_
            _fused_sdp_choice _fused_sgd_ _log_softmax_backward_data _neg_view _safe_softmax
            _sample_dirichlet _scaled_dot_product_cudnn_attention _scaled_dot_product_efficient_attention
            _scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_for_cpu
            _softmax_backward_data _standard_gamma _standard_gamma_grad abs abs_ absolute acos acos_ acosh
            acosh_ adaptive_avg_pool1d adaptive_max_pool1d add addbmm addcdiv addcmul addmm addmv addmv_
            addr adjoint affine_grid_generator all alpha_dropout alpha_dropout_ amax amin aminmax angle any
            arange arccos arccos_ arccosh arccosh_ arcsin arcsin_ arcsinh arcsinh_ arctan arctan2 arctan_
            arctanh arctanh_ argmax argmin argsort argwhere as_strided as_strided_ as_strided_scatter
            as_tensor asin asin_ asinh asinh_ atan atan2 atan_ atanh atanh_ atleast_1d atleast_2d atleast_3d
            avg_pool1d baddbmm bartlett_window batch_norm bernoulli bilinear
            binary_cross_entropy_with_logits bincount binomial bitwise_and bitwise_left_shift bitwise_not
            bitwise_or bitwise_right_shift bitwise_xor blackman_window block_diag bmm broadcast_tensors
            broadcast_to bucketize cartesian_prod cat cdist ceil ceil_ celu celu_ chain_matmul
            channel_shuffle cholesky cholesky_inverse cholesky_solve chunk clamp clamp_ clamp_max clamp_max_
            clamp_min clamp_min_ clip clip_ clone column_stack complex concat concatenate conj conj_physical
            conj_physical_ constant_pad_nd conv1d conv2d conv3d conv_transpose1d conv_transpose2d
            conv_transpose3d convolution copysign corrcoef cos cos_ cosh cosh_ cosine_embedding_loss
            cosine_similarity count_nonzero cov cross ctc_loss cummax cummin cumprod cumsum
            cumulative_trapezoid deg2rad deg2rad_ det detach detach_ diag diag_embed diagflat diagonal
            diagonal_scatter diff digamma dist div divide dot dropout dropout_ dsplit dstack einsum
            embedding embedding_bag embedding_renorm_ empty empty_like empty_permuted empty_strided eq erf
            erf_ erfc erfc_ erfinv exp exp2 exp2_ exp_ expm1 expm1_ eye feature_alpha_dropout
            feature_alpha_dropout_ feature_dropout feature_dropout_ fill fill_ fix fix_ flatten flip fliplr
            flipud float_power floor floor_ floor_divide fmax fmin fmod frac frac_ frexp frobenius_norm full
            full_like gather gcd gcd_ ge geqrf ger gradient greater greater_equal grid_sampler
            grid_sampler_2d grid_sampler_3d group_norm gru gru_cell gt hamming_window hann_window hardshrink
            hash_tensor heaviside hinge_embedding_loss histc histogram histogramdd hsplit hstack hypot i0
            i0_ igamma igammac imag index_add index_copy index_fill index_put index_put_ index_reduce
            index_select inner instance_norm inverse isclose isfinite isin isinf isnan isneginf isposinf
            isreal istft kaiser_window kl_div kron kthvalue layer_norm lcm lcm_ ldexp ldexp_ le lerp less
            less_equal lgamma linspace log log10 log10_ log1p log1p_ log2 log2_ log_ log_softmax logaddexp
            logaddexp2 logcumsumexp logdet logical_and logical_not logical_or logical_xor logit logit_
            logspace logsumexp lstm lstm_cell lt lu_solve lu_unpack margin_ranking_loss masked_fill
            masked_scatter masked_select matmul matrix_exp matrix_power max max_pool1d
            max_pool1d_with_indices max_pool2d max_pool3d maximum mean median meshgrid min minimum
            mkldnn_rnn_layer mm mode moveaxis movedim msort mul multinomial multiply mv mvlgamma nan_to_num
            nan_to_num_ nanmean nanmedian nanquantile nansum narrow native_batch_norm native_group_norm
            native_layer_norm ne neg neg_ negative negative_ nextafter nonzero norm norm_except_dim normal
            not_equal nuclear_norm ones ones_like orgqr ormqr outer pairwise_distance pdist permute pinverse
            pixel_shuffle pixel_unshuffle poisson poisson_nll_loss polar polygamma positive pow prelu prod
            put qr quantile rad2deg rad2deg_ rand rand_like randint randint_like randn randn_like randperm
            range ravel real reciprocal reciprocal_ relu relu_ remainder renorm repeat_interleave reshape
            resolve_conj resolve_neg rms_norm roll rot90 round round_ row_stack rrelu rrelu_ rsqrt rsqrt_
            rsub scalar_tensor scatter scatter_add scatter_reduce searchsorted select select_scatter selu
            selu_ sgn sigmoid sigmoid_ sign signbit sin sin_ sinc sinc_ sinh sinh_ slice_inverse
            slice_scatter slogdet softmax sort split split_with_sizes sqrt sqrt_ square square_ squeeze
            stack std std_mean stft sub subtract sum svd swapaxes swapdims t take take_along_dim tan tan_
            tanh tanh_ tensor tensor_split tensordot threshold threshold_ tile topk trace transpose
            trapezoid trapz triangular_solve tril tril_indices triplet_margin_loss triu triu_indices
            true_divide trunc trunc_ unbind unflatten unique unique_consecutive unravel_index unsafe_split
            unsafe_split_with_sizes unsqueeze vander var var_mean vdot view_as_complex view_as_real vsplit
            vstack where xlogy xlogy_ zero_ zeros zeros_like
        """,
        "torch.Tensor": """
            __abs__ __add__ __and__ __div__ __eq__ __floordiv__ __ge__ __getitem__ __gt__ __iadd__ __iand__
            __idiv__ __ifloordiv__ __ilshift__ __imod__ __imul__ __invert__ __ior__ __ipow__ __irshift__
            __isub__ __itruediv__ __ixor__ __le__ __lshift__ __lt__ __matmul__ __mod__ __mul__ __ne__
            __neg__ __or__ __pos__ __pow__ __radd__ __rand__ __rdiv__ __rfloordiv__ __rlshift__ __rmatmul__
            __rmod__ __rmul__ __ror__ __rpow__ __rrshift__ __rshift__ __rsub__ __rtruediv__ __rxor__
            __setitem__ __sub__ __truediv__ __xor__ abs abs_ absolute absolute_ acos acos_ acosh acosh_ add
            add_ addbmm addbmm_ addcdiv addcdiv_ addcmul addcmul_ addmm addmm_ addmv addmv_ addr addr_
            adjoint all amax amin aminmax angle any arccos arccos_ arccosh arccosh_ arcsin arcsin_ arcsinh
            arcsinh_ arctan arctan2 arctan2_ arctan_ arctanh arctanh_ argmax argmin argsort argwhere
            as_strided as_strided_ as_strided_scatter asin asin_ asinh asinh_ atan atan2 atan2_ atan_ atanh
            atanh_ baddbmm baddbmm_ bernoulli bernoulli_ bfloat16 bincount bitwise_and bitwise_and_
            bitwise_left_shift bitwise_left_shift_ bitwise_not bitwise_not_ bitwise_or bitwise_or_
            bitwise_right_shift bitwise_right_shift_ bitwise_xor bitwise_xor_ bmm bool broadcast_to byte
            cauchy_ cdouble ceil ceil_ cfloat chalf char cholesky cholesky_inverse cholesky_solve chunk
            clamp clamp_ clamp_max clamp_max_ clamp_min clamp_min_ clip clip_ clone conj conj_physical
            conj_physical_ contiguous copy_ copysign copysign_ corrcoef cos cos_ cosh cosh_ count_nonzero
            cov cpu cross cuda cummax cummin cumprod cumprod_ cumsum cumsum_ deg2rad deg2rad_ det detach
            detach_ diag diag_embed diagflat diagonal diagonal_scatter diff digamma digamma_ dist div div_
            divide divide_ dot double dsplit eq eq_ erf erf_ erfc erfc_ erfinv erfinv_ exp exp2 exp2_ exp_
            expand expand_as expm1 expm1_ exponential_ fill_ fill_diagonal_ fix fix_ flatten flip fliplr
            flipud float float_power float_power_ floor floor_ floor_divide floor_divide_ fmax fmin fmod
            fmod_ frac frac_ frexp gather gcd gcd_ ge ge_ geometric_ geqrf ger greater greater_
            greater_equal greater_equal_ gt gt_ half hardshrink hash_tensor heaviside heaviside_ histc
            histogram hsplit hypot hypot_ i0 i0_ igamma igamma_ igammac igammac_ index index_add index_add_
            index_copy_ index_fill index_fill_ index_put index_put_ index_reduce index_reduce_ index_select
            inner int inverse isclose isfinite isinf isnan isneginf isposinf isreal istft kron kthvalue lcm
            lcm_ ldexp ldexp_ le le_ lerp lerp_ less less_ less_equal less_equal_ lgamma lgamma_ log log10
            log10_ log1p log1p_ log2 log2_ log_ log_normal_ log_softmax logaddexp logaddexp2 logcumsumexp
            logdet logical_and logical_and_ logical_not logical_not_ logical_or logical_or_ logical_xor
            logical_xor_ logit logit_ logsumexp long lt lt_ lu_solve masked_fill masked_fill_ masked_scatter
            masked_scatter_ masked_select matmul matrix_exp matrix_power max maximum mean median min minimum
            mm mode moveaxis movedim msort mul mul_ multinomial multiply multiply_ mv mvlgamma mvlgamma_
            nan_to_num nan_to_num_ nanmean nanmedian nanquantile nansum narrow ne ne_ neg neg_ negative
            negative_ new_empty new_empty_strided new_full new_ones new_tensor new_zeros nextafter
            nextafter_ nonzero norm normal_ not_equal not_equal_ orgqr ormqr outer permute pinverse
            polygamma polygamma_ positive pow pow_ prelu prod put put_ qr quantile rad2deg rad2deg_ random_
            ravel reciprocal reciprocal_ relu relu_ remainder remainder_ renorm renorm_ repeat
            repeat_interleave reshape reshape_as resize resolve_conj resolve_neg roll rot90 round round_
            rsqrt rsqrt_ scatter scatter_ scatter_add scatter_add_ scatter_reduce scatter_reduce_ select
            select_scatter sgn sgn_ short sigmoid sigmoid_ sign sign_ signbit sin sin_ sinc sinc_ sinh sinh_
            slice_inverse slice_scatter slogdet softmax sort split split_with_sizes sqrt sqrt_ square
            square_ squeeze squeeze_ std stft sub sub_ subtract subtract_ sum sum_to_size svd swapaxes
            swapaxes_ swapdims swapdims_ t t_ take take_along_dim tan tan_ tanh tanh_ tensor_split tile to
            topk trace transpose transpose_ triangular_solve tril tril_ triu triu_ true_divide true_divide_
            trunc trunc_ type type_as unbind unflatten unfold uniform_ unique unique_consecutive
            unsafe_split unsafe_split_with_sizes unsqueeze unsqueeze_ var vdot view view_as vsplit where
            xlogy xlogy_ zero_
        """,
        "torch._C._nn": """
            elu fractional_max_pool2d fractional_max_pool3d glu hardsigmoid hardswish hardtanh leaky_relu
            max_pool2d_with_indices max_pool3d_with_indices mish reflection_pad1d reflection_pad2d
            reflection_pad3d relu6 replication_pad1d replication_pad2d replication_pad3d rrelu_with_noise
            silu
        """,
        "torch.fft": """
            fft fft2 fftfreq fftn fftshift hfft hfft2 hfftn ifft ifft2 ifftn ifftshift ihfft ihfft2 ihfftn
            irfft irfft2 irfftn rfft rfft2 rfftfreq rfftn
        """,
        "torch.linalg": """
            cholesky cholesky_ex cond cross det diagonal eig eigh eigvals eigvalsh householder_product inv
            inv_ex ldl_factor ldl_factor_ex ldl_solve lstsq lu lu_factor lu_factor_ex lu_solve matmul
            matrix_exp matrix_norm matrix_power matrix_rank multi_dot norm pinv qr slogdet solve solve_ex
            solve_triangular svd svdvals tensorinv tensorsolve vander vecdot vector_norm
        """,
        "torch.nn.functional": """
            adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d
            adaptive_max_pool1d_with_indices adaptive_max_pool2d adaptive_max_pool2d_with_indices
            adaptive_max_pool3d adaptive_max_pool3d_with_indices affine_grid alpha_dropout avg_pool1d
            avg_pool2d avg_pool3d batch_norm bilinear binary_cross_entropy binary_cross_entropy_with_logits
            celu celu_ channel_shuffle conv1d conv2d conv3d conv_transpose1d conv_transpose2d
            conv_transpose3d cosine_embedding_loss cosine_similarity cross_entropy ctc_loss dropout
            dropout1d dropout2d dropout3d elu elu_ embedding embedding_bag feature_alpha_dropout fold
            fractional_max_pool2d fractional_max_pool2d_with_indices fractional_max_pool3d
            fractional_max_pool3d_with_indices gaussian_nll_loss gelu glu grid_sample group_norm
            gumbel_softmax hardshrink hardsigmoid hardswish hardtanh hardtanh_ hinge_embedding_loss
            huber_loss instance_norm interpolate kl_div l1_loss layer_norm leaky_relu leaky_relu_ linear
            local_response_norm log_softmax logsigmoid lp_pool1d lp_pool2d lp_pool3d margin_ranking_loss
            max_pool1d max_pool1d_with_indices max_pool2d max_pool2d_with_indices max_pool3d
            max_pool3d_with_indices max_unpool1d max_unpool2d max_unpool3d mish mse_loss
            multi_head_attention_forward multi_margin_loss multilabel_margin_loss
            multilabel_soft_margin_loss nll_loss normalize one_hot pad pairwise_distance pdist pixel_shuffle
            pixel_unshuffle poisson_nll_loss prelu relu relu6 relu_ rms_norm rrelu rrelu_
            scaled_dot_product_attention selu selu_ sigmoid silu smooth_l1_loss soft_margin_loss softmax
            softmin softplus softshrink softsign tanh tanhshrink threshold threshold_ triplet_margin_loss
            triplet_margin_with_distance_loss unfold
        """,
        "torch.special": """
            airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 chebyshev_polynomial_t chebyshev_polynomial_u
            chebyshev_polynomial_v chebyshev_polynomial_w digamma entr erf erfc erfcx erfinv exp2 expit
            expm1 gammainc gammaincc gammaln hermite_polynomial_h hermite_polynomial_he i0 i0e i1 i1e
            laguerre_polynomial_l legendre_polynomial_p log1p log_ndtr log_softmax logit logsumexp
            modified_bessel_i0 modified_bessel_i1 modified_bessel_k0 modified_bessel_k1 multigammaln ndtr
            ndtri polygamma psi round scaled_modified_bessel_k0 scaled_modified_bessel_k1
            shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v
            shifted_chebyshev_polynomial_w sinc softmax spherical_bessel_j0 xlog1py xlogy zeta
        """,
    }
)
"""By the module or the class that has them."""

KERNELS = _listed(
    {
        "aten": """
            _adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward _cdist_backward _ctc_loss
            _ctc_loss_backward _cudnn_rnn _cudnn_rnn_backward _embedding_bag_backward
            _embedding_bag_per_sample_weights_backward _native_batch_norm_legit_functional _pdist_backward
            _prelu_kernel_backward _scaled_dot_product_cudnn_attention
            _scaled_dot_product_cudnn_attention_backward _scaled_dot_product_efficient_attention
            _scaled_dot_product_efficient_attention_backward _scaled_dot_product_flash_attention
            _scaled_dot_product_flash_attention_backward _scaled_dot_product_flash_attention_for_cpu
            _scaled_dot_product_flash_attention_for_cpu_backward _thnn_fused_gru_cell
            _thnn_fused_gru_cell_backward _thnn_fused_lstm_cell _thnn_fused_lstm_cell_backward_impl _to_copy
            _upsample_bilinear2d_aa _upsample_bilinear2d_aa_backward affine_grid_generator as_strided
            avg_pool2d_backward avg_pool3d_backward binary_cross_entropy_backward constant_pad_nd
            convolution_backward copy_ cumprod_backward diagonal_backward elu_backward
            embedding_dense_backward gelu_backward glu_backward grid_sampler_2d_backward
            grid_sampler_3d_backward hardshrink_backward hardsigmoid_backward hardswish_backward
            hardtanh_backward huber_loss_backward index_put index_put_ leaky_relu_backward
            log_sigmoid_backward log_sigmoid_forward logit_backward masked_scatter_backward
            max_pool2d_with_indices max_pool2d_with_indices_backward max_pool3d_with_indices mish_backward
            mkldnn_rnn_layer mkldnn_rnn_layer_backward mse_loss_backward multi_margin_loss_backward
            multilabel_margin_loss_backward multilabel_margin_loss_forward native_batch_norm
            native_batch_norm_backward native_group_norm_backward native_layer_norm_backward
            nll_loss2d_backward nll_loss2d_forward nll_loss_backward nll_loss_forward reflection_pad1d
            reflection_pad1d_backward reflection_pad2d reflection_pad2d_backward reflection_pad3d
            reflection_pad3d_backward replication_pad1d replication_pad1d_backward replication_pad2d
            replication_pad2d_backward replication_pad3d replication_pad3d_backward rrelu_with_noise
            rrelu_with_noise_backward select_backward set_grad_enabled sigmoid_backward silu_backward
            slice_backward smooth_l1_loss_backward soft_margin_loss_backward softplus_backward tanh_backward
            threshold_backward unfold_backward upsample_bilinear2d upsample_bilinear2d_backward
            upsample_linear1d upsample_linear1d_backward upsample_nearest1d upsample_nearest1d_backward
            value_selecting_reduction_backward
        """,
    }
)
"""Those of ``torch.ops``, by their namespace."""
