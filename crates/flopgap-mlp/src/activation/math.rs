//! Functions that several activations are made of, in 32 bits without branches, so that the
//! compiler makes vector instructions of them, and in 64 bits. Polynomials were fitted by
//! iteratively reweighted least squares (Lawson's method).

/// `a b + c`, in one rounding where that is fast.
#[inline(always)]
pub(super) fn multiply_add<const FUSED: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FUSED { a.mul_add(b, c) } else { a * b + c }
}

/// The polynomial with these coefficients, that of the constant first.
#[inline(always)]
fn polynomial<const FUSED: bool, const N: usize>(x: f32, coefficients: [f32; N]) -> f32 {
    let mut sum = coefficients[N - 1];
    for index in (0..N - 1).rev() {
        sum = multiply_add::<FUSED>(sum, x, coefficients[index]);
    }
    sum
}

/// 1.5 * 2^23: adding it rounds to a whole number, which is then in the lowest bits.
const ROUND: f32 = 12_582_912.0;

/// `exp(x)` to 1e-7 between -87 and 88, the value there beyond them; NaN for NaN.
#[inline(always)]
fn exp<const FUSED: bool>(x: f32) -> f32 {
    // Selections, unlike `f32::min`, keep NaN.
    let x = if x > 88.0 { 88.0 } else { x };
    let x = if x < -87.0 { -87.0 } else { x };
    let shifted = multiply_add::<FUSED>(x, std::f32::consts::LOG2_E, ROUND);
    let whole = shifted - ROUND;
    // ln 2 in two parts, the first with so few bits that its product with `whole` is exact.
    let rest = multiply_add::<FUSED>(whole, -0.693_359_4, x);
    let rest = multiply_add::<FUSED>(whole, 2.121_944_4e-4, rest);
    let tail = polynomial::<FUSED, 5>(
        rest,
        [0.499_999_94, 0.166_665_21, 0.041_668_39, 0.008_368_718, 0.001_381_461_3],
    );
    let mantissa = multiply_add::<FUSED>(rest * rest, tail, rest) + 1.0;
    let power = f32::from_bits((shifted.to_bits() << 23).wrapping_add(1.0_f32.to_bits()));
    mantissa * power
}

#[inline(always)]
pub(super) fn sigmoid<const FUSED: bool>(z: f32) -> f32 {
    1.0 / (1.0 + exp::<FUSED>(-z))
}

/// The sigmoid, and 1 less it with all digits.
#[inline(always)]
pub(super) fn sigmoids<const FUSED: bool>(z: f32) -> (f32, f32) {
    let exp = exp::<FUSED>(-z);
    let sigmoid = 1.0 / (1.0 + exp);
    (sigmoid, exp * sigmoid)
}

#[inline(always)]
pub(super) fn tanh<const FUSED: bool>(z: f32) -> f32 {
    let size = z.abs();
    let square = z * z;
    let near = polynomial::<FUSED, 5>(
        square,
        [-0.333_332_8, 0.133_314_42, -0.053_739_7, 0.020_639_041, -0.005_704_933_3],
    );
    let near = multiply_add::<FUSED>(z * square, near, z);
    // The exponential is finite up to 44, and the tangent 1 long before.
    let far = (1.0 - 2.0 / (1.0 + exp::<FUSED>(2.0 * size))).copysign(z);
    if size < 0.625 { near } else { far }
}

/// `exp(-z^2 / 2)` and the normal distribution function at `z`.
#[inline(always)]
pub(super) fn normal<const FUSED: bool>(z: f32) -> (f32, f32) {
    let half_square = 0.5 * z * z;
    let bell = exp::<FUSED>(-half_square);
    // What the square lost by rounding would show in the tails, where its exponential is steep.
    let bell = if FUSED { bell * (1.0 - (0.5 * z).mul_add(z, -half_square)) } else { bell };
    // The tail over the bell is a smooth function of t, from 0 far out to 1/2 in the middle.
    let t = 1.0 / multiply_add::<FUSED>(z.abs(), 0.35, 1.0);
    let tail = t * polynomial::<FUSED, 9>(
        t,
        [
            0.139_621_4,
            0.139_861_87,
            0.119_832_86,
            0.105_508_03,
            -0.023_109_902,
            0.159_174_26,
            -0.255_714_33,
            0.143_971_74,
            -0.029_145_94,
        ],
    );
    let below = bell * tail;
    (bell, if z < 0.0 { below } else { 1.0 - below })
}
