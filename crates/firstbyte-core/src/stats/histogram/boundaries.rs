//! Finds the bucket of a number exactly, by integer comparisons of its bits.
//!
//! A logarithm is off by a bucket near borders (OpenTelemetry allows for that). The borders within a factor of two are
//! the roots `2^(k/128)`, irrational except the first: a mantissa is above one exactly if it is above its integer
//! part.

pub(super) const FINEST_SCALE: i8 = 7;
/// Borders within a factor of two at that scale.
const BORDERS: usize = 1 << FINEST_SCALE;
/// Bits of a double's mantissa.
const MANTISSA_BITS: u32 = 52;

/// `⌊2^52 · 2^(k/128)⌋` for k from 1 to 127.
#[rustfmt::skip]
const ROOTS: [u64; BORDERS - 1] = [
    0x10_163d_a9fb_3335, 0x10_2c9a_3e77_8060, 0x10_4315_e86e_7f84, 0x10_59b0_d315_8574,
    0x10_706b_29dd_f6dd, 0x10_8745_1875_9bc8, 0x10_9e3e_cac6_f383, 0x10_b558_6cf9_890f,
    0x10_cc92_2b72_47f7, 0x10_e3ec_32d3_d1a2, 0x10_fb66_affe_d31a, 0x11_1301_d012_5b50,
    0x11_2abd_c06c_31cb, 0x11_429a_aea9_2ddf, 0x11_5a98_c8a5_8e51, 0x11_72b8_3c7d_517a,
    0x11_8af9_388c_8de9, 0x11_a35b_eb6f_cb75, 0x11_bbe0_8404_5cd3, 0x11_d487_3168_b9aa,
    0x11_ed50_22fc_d91c, 0x12_063b_8862_8cd6, 0x12_1f49_917d_dc96, 0x12_387a_6e75_6238,
    0x12_51ce_4fb2_a63f, 0x12_6b45_65e2_7cdd, 0x12_84df_e1f5_6380, 0x12_9e9d_f51f_dee1,
    0x12_b87f_d0da_d98f, 0x12_d285_a6e4_030b, 0x12_ecaf_a93e_2f56, 0x13_06fe_0a31_b715,
    0x13_2170_fc4c_d831, 0x13_3c08_b264_16ff, 0x13_56c5_5f92_9ff0, 0x13_71a7_373a_a9ca,
    0x13_8cae_6d05_d865, 0x13_a7db_34e5_9ff6, 0x13_c32d_c313_a8e4, 0x13_dea6_4c12_3422,
    0x13_fa45_04ac_801b, 0x14_160a_21f7_2e29, 0x14_31f5_d950_a896, 0x14_4e08_6061_892d,
    0x14_6a41_ed1d_0057, 0x14_86a2_b5c1_3cd0, 0x14_a32a_f0d7_d3de, 0x14_bfda_d536_2a27,
    0x14_dcb2_99fd_dd0d, 0x14_f9b2_769d_2ca6, 0x15_16da_a2cf_6641, 0x15_342b_569d_4f81,
    0x15_51a4_ca5d_920e, 0x15_6f47_36b5_27da, 0x15_8d12_d497_c7fd, 0x15_ab07_dd48_5429,
    0x15_c926_8a59_46b7, 0x15_e76f_15ad_2148, 0x16_05e1_b976_dc08, 0x16_247e_b03a_5584,
    0x16_4346_34cc_c31f, 0x16_6238_8255_2224, 0x16_8155_d44c_a973, 0x16_a09e_667f_3bcc,
    0x16_c012_750b_dabe, 0x16_dfb2_3c65_1a2e, 0x16_ff7d_f951_9483, 0x17_1f75_e8ec_5f73,
    0x17_3f9a_48a5_8173, 0x17_5feb_5642_67c8, 0x17_8069_4fde_5d3f, 0x17_a114_73eb_0186,
    0x17_c1ed_0130_c132, 0x17_e2f3_36cf_4e62, 0x18_0427_543e_1a11, 0x18_2589_994c_ce12,
    0x18_471a_4623_c7ac, 0x18_68d9_9b44_92ec, 0x18_8ac7_d98a_6699, 0x18_ace5_422a_a0db,
    0x18_cf32_16b5_448b, 0x18_f1ae_9915_7736, 0x19_145b_0b91_ffc5, 0x19_3737_b0cd_c5e4,
    0x19_5a44_cbc8_520e, 0x19_7d82_9fde_4e4f, 0x19_a0f1_70ca_07b9, 0x19_c491_82a3_f090,
    0x19_e863_19e3_2323, 0x1a_0c66_7b5d_e564, 0x1a_309b_ec4a_2d33, 0x1a_5503_b23e_255c,
    0x1a_799e_1330_b358, 0x1a_9e6b_5579_fdbf, 0x1a_c36b_bfd3_f379, 0x1a_e89f_995a_d3ad,
    0x1b_0e07_298d_b665, 0x1b_33a2_b84f_15fa, 0x1b_5972_8de5_5939, 0x1b_7f76_f2fb_5e46,
    0x1b_a5b0_30a1_0649, 0x1b_cc1e_904b_c1d2, 0x1b_f2c2_5bd7_1e08, 0x1c_199b_dd85_529c,
    0x1c_40ab_5fff_d07a, 0x1c_67f1_2e57_d14b, 0x1c_8f6d_9406_e7b5, 0x1c_b720_dcef_9069,
    0x1c_df0b_555d_c3f9, 0x1d_072d_4a07_897b, 0x1d_2f87_080d_89f1, 0x1d_5818_dcfb_a487,
    0x1d_80e3_16c9_8397, 0x1d_a9e6_03db_3285, 0x1d_d321_f301_b460, 0x1d_fc97_337b_9b5e,
    0x1e_2646_14f5_a128, 0x1e_502e_e78b_3ff6, 0x1e_7a51_fbc7_4c83, 0x1e_a4af_a2a4_90d9,
    0x1e_cf48_2d8e_67f0, 0x1e_fa1b_ee61_5a27, 0x1f_252b_376b_ba97, 0x1f_5076_5b6e_4540,
    0x1f_7bfd_ad9c_be13, 0x1f_a7c1_819e_90d8, 0x1f_d3c2_2b8f_71f1,
];

/// Index (OpenTelemetry's) of the bucket that holds `value` at `scale`, which is at most `FINEST_SCALE`.
///
/// Bucket `i` holds `(2^(i·2^-scale), 2^((i+1)·2^-scale)]`. `None` if `value` is not above zero or not finite.
pub fn bucket_index(value: f64, scale: i8) -> Option<i32> {
    if !value.is_finite() || value <= 0.0 {
        return None;
    }
    let (exponent, mantissa) = parts(value);
    let borders = BORDERS as i32;
    let finest = match mantissa.checked_sub(1 << MANTISSA_BITS) {
        // A power of two is the upper end of its bucket.
        Some(0) | None => exponent * borders - 1,
        Some(_) => exponent * borders + ROOTS.partition_point(|root| *root < mantissa) as i32,
    };
    Some(finest >> (FINEST_SCALE - scale.min(FINEST_SCALE)))
}

/// The lower and the upper border of bucket `index` at `scale`, as doubles.
///
/// The upper one is the largest double in the bucket, the lower one the largest below it. Infinite or zero at the
/// limits of doubles.
pub fn bucket_within(index: i32, scale: i8) -> (f64, f64) {
    let border = |index: i32| {
        let finest = i64::from(index) << (FINEST_SCALE - scale.min(FINEST_SCALE));
        let borders = BORDERS as i64;
        let root = match finest.rem_euclid(borders) {
            0 => 1.0,
            place => ROOTS[place as usize - 1] as f64 / (1_u64 << MANTISSA_BITS) as f64,
        };
        let exponent = finest.div_euclid(borders).clamp(-2_000, 2_000) as i32;
        // In two steps: 2^-1074 is a double, 2^1074 is not.
        let half = exponent / 2;
        root * 2_f64.powi(half) * 2_f64.powi(exponent - half)
    };
    (border(index), border(index.saturating_add(1)))
}

/// Splits `value` into `mantissa · 2^(exponent - 52)`, with the mantissa from 2^52 to below 2^53.
fn parts(value: f64) -> (i32, u64) {
    let bits = value.to_bits();
    let fraction = bits & ((1 << MANTISSA_BITS) - 1);
    match (bits >> MANTISSA_BITS) & 0x7ff {
        // Subnormal: there is no leading one.
        0 => {
            let shift = fraction.leading_zeros() + MANTISSA_BITS - (u64::BITS - 1);
            (-1_022 - shift as i32, fraction << shift)
        }
        biased => (biased as i32 - 1_023, fraction | 1 << MANTISSA_BITS),
    }
}
