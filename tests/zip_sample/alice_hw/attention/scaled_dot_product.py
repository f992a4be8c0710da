from .helpers import attend, check_qkv, upper_triangle


def scaled_dot_product_attention(Q, K, V, causal=False):
    check_qkv(Q, K, V, causal)
    return attend(Q, K, V, upper_triangle(Q.shape[-2], Q.device) if causal else None)
