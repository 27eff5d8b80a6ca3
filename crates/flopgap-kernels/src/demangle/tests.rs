//! Each construct as NVIDIA's tools print it, odd spaces and all.

use std::fmt::Write;

use super::{Demangled, demangle, demangle_nvidia};

fn check(names: &[(&str, &str)]) {
    for (mangled, expected) in names {
        let name = demangle_nvidia(mangled).unwrap_or_else(|| panic!("{mangled}"));
        assert_eq!(name.full, *expected, "{mangled}");
    }
}

#[test]
fn fundamental_types() {
    check(&[
        ("_Z1fv", "f()"),
        (
            "_Z1fabcdefghi",
            "f(signed char, bool, char, double, long double, float, __float128, unsigned char, int)",
        ),
        (
            "_Z1fjlmnostwxyz",
            "f(unsigned int, long, unsigned long, __int128, unsigned __int128, short, unsigned short, wchar_t, long long, unsigned long long, ...)",
        ),
        ("_Z1fDnDiDsDuDh", "f(std::nullptr_t, char32_t, char16_t, char8_t, __fp16)"),
        ("_Z1fDF16_DF16b", "f(std::float16_t, std::bfloat16_t)"),
        ("_Z1fDaDc", "f(auto, decltype(auto))"),
        ("_Z1fu6__bf16", "f(__bf16)"),
        ("_Z1fiz", "f(int, ...)"),
    ]);
}

#[test]
fn pointers_and_qualifiers() {
    check(&[
        ("_Z1fPKcPVcPVKcPrc", "f(const char *, volatile char *, const volatile char *, restrict char *)"),
        ("_Z1fRKcOc", "f(const char &, char &&)"),
        ("_Z1fKPc", "f(char *const )"),
        ("_Z1fPKPKc", "f(const char *const *)"),
        ("_Z1frKPc", "f(char *const restrict )"),
        ("_Z1fKRi", "f(int &const )"),
        ("_Z1fPU3AS1c", "f(char AS1*)"),
        ("_Z1fKU3AS1c", "f(char AS1const )"),
        ("_Z1fPKT_", "f(const T1 *)"),
    ]);
}

#[test]
fn functions_arrays_and_members() {
    check(&[
        ("_Z1fPFivE", "f(int (*)())"),
        ("_Z1fFivE", "f(int ())"),
        ("_Z1fPKFivE", "f(int (*)() const)"),
        ("_Z1fPFPFivEvE", "f(int (*(*)())())"),
        ("_Z1fRFivE", "f(int (&)())"),
        ("_Z1fPDoFivE", "f(int (*)() noexcept)"),
        ("_Z1fA10_c", "f(char [10])"),
        ("_Z1fPA10_c", "f(char (*)[10])"),
        ("_Z1fRA3_A10_c", "f(char (&)[3][10])"),
        ("_Z1fPA_c", "f(char (*)[])"),
        ("_Z1fPKA10_c", "f(char (*)[10])"),
        ("_Z1fILi3EEvRAT__c", "void f<(int)3>(char (&)[T1])"),
        ("_Z1fM1Ai", "f(int  :: A::*)"),
        ("_Z1fM1AFivE", "f(int ( :: A::*)())"),
        ("_Z1fM1AKFivRE", "f(int ( :: A::*)() const &)"),
        ("_Z1fM1APFivE", "f(int (* :: A::*)())"),
        ("_Z1fRM1AFivE", "f(int ( :: A::*&)())"),
        ("_Z1fDv4_f", "f(float __attribute((vector_size(4*sizeof(float)))) )"),
        ("_Z1fPKDv4_f", "f(const float __attribute((vector_size(4*sizeof(float))))  *)"),
    ]);
}

#[test]
fn scopes_and_references() {
    check(&[
        ("_ZN1A1fEv", "A::f()"),
        ("_ZNVK1A1fEv", "A::f() const volatile"),
        ("_ZNKR1A1fEv", "A::f() const &"),
        ("_ZN12_GLOBAL__N_11fEv", "<unnamed>::f()"),
        ("_ZN23_INTERNAL_7_a_cu_1234561fEv", "f()"),
        ("_ZN1A1fB5cxx11Ev", "A::f[abi:cxx11]()"),
        ("_ZN1A1fEPKS_", "A::f(const A*)"),
        ("_Z1f1APS_", "f(A, A *)"),
        ("_Z1fN1B1AIiEEPS1_", "f(B::A<int>, B::A<int> *)"),
        ("_Z1fSt6vectorIiEPS_IjE", "f(std::vector<int>, std::vector<unsigned int>*)"),
        ("_Z1fN1B1AEPKS0_IjE", "f(B::A, const B::A <unsigned int>*)"),
        ("_ZN1A1fEPFS_vE", "A::f(A(*)())"),
        ("_Z1fPSaIiE", "f(std::allocator<int>*)"),
        (
            "_Z1fRKSsPSo",
            "f(const std::basic_string<char, std::char_traits<char>, std::allocator<char>>&, std::basic_ostream<char, std::char_traits<char>>*)",
        ),
        (
            "_ZNSsC1Ev",
            "std::basic_string<char, std::char_traits<char>, std::allocator<char>>::basic_string()",
        ),
    ]);
}

#[test]
fn special_members_and_operators() {
    check(&[
        ("_ZN1AC1Ev", "A::A()"),
        ("_ZN1AC2Ei", "A::A(int) [subobject]"),
        ("_ZN1AIiED0Ev", "A<int>::~A() [deleting]"),
        ("_ZNSt1AC2B3abcEv", "std::A::A[abi:abc]() [subobject]"),
        ("_ZN1AcvT_IiEEv", "A::operator T1<int>()"),
        ("_ZN1AcvPT_IiEEv", "A::operator T1 *<int>()"),
        ("_ZN1AclEv", "A::operator ()()"),
        ("_ZN1AltIiEEvT_", "void A::operator <<int>(T1)"),
        ("_ZN1AnwIiEEPvm", "void * A::operator new <int>(unsigned long)"),
        ("_Zli2_xy", "operator \"\"_x(unsigned long long)"),
    ]);
}

#[test]
fn templates() {
    check(&[
        ("_Z1fIiEPT_v", "T1 * f<int>()"),
        ("_Z1fIiEPFPT_vEv", "T1 *(*)() f<int>()"),
        ("_Z1fIJijEEvDpRKT_", "void f<int, unsigned int>(const T1 &...)"),
        ("_Z1f1AIiJEE", "f(A<int, >)"),
        ("_Z1fISt4plusEvRKT_IjERKS1_IiE", "void f<std::plus>(const T1<unsigned int> &, T1<int>&)"),
        ("_Z1f1AIiEPS_IjE", "f(A<int>, A<unsigned int>*)"),
        ("_ZN1AIiE1fIjEES_IT_Ev", "A<T1> A<int>::f<unsigned int>()"),
        ("_Z1fIu3fooIiEEvT_", "void f<foo<int>>(T1)"),
        ("_Z1fI1BEvNT_1CIiE1DE", "void f<B>(T1::C<int>::D)"),
    ]);
}

#[test]
fn values() {
    check(&[
        (
            "_Z1f1AILb1ELin3ELc65ELj3ELm3EE",
            "f(A<(bool)1, (int)-3, (char)65, (unsigned int)3, (unsigned long)3>)",
        ),
        ("_Z1f1AILN1B1EE3EE", "f(A<(B::E)3>)"),
        ("_Z1f1AILDnEE", "f(A<nullptr>)"),
        ("_Z1f1AILDn0EE", "f(A<(std::nullptr_t)0>)"),
        ("_Z1f1AILPKc0EE", "f(A<(const char *)0>)"),
        ("_Z1f1AILA5_KcEE", "f(A<(const char [5])\"...\">)"),
        ("_Z1f1AIXadL_Z1gvEEE", "f(A<&g>)"),
        ("_Z1f1AIL_ZNK1C1gEvEE", "f(A<C::g const>)"),
        (
            "_Z1f1AILf40490fdbELfbf800000ELf5a0e1bcaELf7f800000EE",
            "f(A<(float)3.14159, (float)-1.0, (float)1e+16, (float)inf>)",
        ),
        (
            "_Z1f1AILd400921fb54442d18ELd41cdcd6500000000ELd3f1a36e2eb1c432dEE",
            "f(A<(double)3.14159265358979, (double)1000000000.0, (double)0.0001>)",
        ),
        ("_Z1f1AILfffc00000EE", "f(A<(float)-nan>)"),
    ]);
}

#[test]
fn closures_and_local_names() {
    check(&[
        ("_Z1gIZ1fvEUlvE_EvT_", "void g<f()::[lambda() (instance 1)]>(T1)"),
        ("_Z1gIZ1fIiEvT_EUlT_E0_EvT_", "void g<void f<int>(T1)::[lambda(T1) (instance 2)]>(T1)"),
        ("_Z1gIZNK1B1hEvEUt_EvT_", "void g<B::h() const::[unnamed type (instance 1)]>(T1)"),
        ("_Z1gIZ1fvE1A_0EvT_", "void g<f()::A (instance 2)>(T1)"),
        ("_ZZ1fvEN1A1gE__10_v", "f()::A::g (instance 12)()"),
        (
            "_ZZ1fvEd0_NKUlvE_clEv",
            "f()::[default argument 2 (from end)]::[lambda() (instance 1)]::operator ()() const",
        ),
        ("_ZZN1A1fEvENKUlvE_clEv", "A::f()::[lambda() (instance 1)]::operator ()() const"),
        ("_ZNK1AMUlvE_clEv", "A::[lambda() (instance 1)]::operator ()() const"),
        ("_ZN1ADC1a1bEE", "A::[structured binding for a,b]"),
        ("_ZZ1fvENK1B1gES_", "f()::B::g(B) const"),
        ("_Z1hIZ1fvEN1B1CEEvT_PS0_PS1_", "void h<f()::B::C>(T1, B*, f()::B::C *)"),
    ]);
}

#[test]
fn expressions() {
    check(&[
        ("_Z1fILi1EEv1AIXgtplT_Li2ELi3EEE", "void f<(int)1>(A<T1+(int)2>(int)3>)"),
        ("_Z1fI1BEv1AIXaasrT_5valuentsrN1C1DE1vEE", "void f<B>(A<T1::value&&!C::D::v>)"),
        ("_Z1fI1BEv1AIXsr1C1DE1vEE", "void f<B>(A<C::D::v>)"),
        (
            "_Z1fI1BEvNSt9enable_ifIXsrSt7is_sameIT_iE5valueEiE4typeE",
            "void f<B>(std::enable_if<std::is_same<T1, int>::value, int>::type)",
        ),
        ("_Z1fIJ1BEEv1AIXsZT_EE", "void f<B>(A<sizeof...(T1)>)"),
        ("_Z1f1AIXquLb1ELi1ELi2EEE", "f(A<(bool)1?(int)1:(int)2>)"),
        ("_Z1fIiEDTplfp_fp0_ET_S0_", "decltype((param#1+param#2)) f<int>(T1, decltype((param#1+param#2)))"),
        ("_Z1fIiEDtfp_ET_", "decltype(param#1) f<int>(T1)"),
        ("_Z1fI1BEDTcldtfp_1gIiEspfp_EET_", "decltype(((param#1.g<int>)(param#1...))) f<B>(T1)"),
        ("_Z1fI1BEDTptfp_3fooET_", "decltype(((param#1->foo))) f<B>(T1)"),
        ("_Z1fI1BEDTfL0p_ET_", "decltype((param#1[up 1 level])) f<B>(T1)"),
        ("_Z1fI1BEDTixfp_Li0EET_", "decltype((param#1[(int)0])) f<B>(T1)"),
        ("_Z1fI1BEDTpp_ppfp_ET_", "decltype((++param#1++)) f<B>(T1)"),
        ("_Z1fI1BEDTclonplfp_fp_EET_", "decltype((operator +(param#1, param#1))) f<B>(T1)"),
        ("_Z1fI1BEDTgssr1C1DE1vET_", "decltype((::C::D::v)) f<B>(T1)"),
        ("_Z1fI1BEDTscT_cvT__EES0_", "decltype((static_cast<T1>(T1()))) f<B>(B)"),
        ("_Z1fI1BEDTcviLb1EES0_", "decltype(((int)(bool)1)) f<B>(B)"),
        ("_Z1fI1BEDTtlT_Li1Eszfp_EES0_", "decltype((T1{(int)1, sizeof(param#1)})) f<B>(B)"),
        ("_Z1fI1BEDTilstiatiEES0_", "decltype(({sizeof(int), alignof(int)})) f<B>(B)"),
        ("_Z1fI1BEDTtrES0_", "decltype((throw)) f<B>(B)"),
        ("_Z1fI1BEDTdtfp_dn1BES0_", "decltype(((param#1.~B))) f<B>(B)"),
        ("_Z1fI1BEDTfpTET_", "decltype((this)) f<B>(T1)"),
        (
            "_Z1fIJLb1EEEv1AIXfraaT_EXfLooLb1ET_EXflaaT_EE",
            "void f<(bool)1>(A<(T1&&...), ((bool)1||...||T1), (...&&T1)>)",
        ),
    ]);
}

#[test]
fn short_names_are_bare() {
    for (mangled, short) in [
        ("_ZN1A1B1fIiEEvT_", "f"),
        ("_ZZ1fvENKUlvE_clEv", "operator ()"),
        ("_ZN1AIiEC1Ev", "A"),
        ("_ZN1AIiED1Ev", "~A"),
        ("_ZSt4sortIiEvT_", "sort"),
        ("_Z1x", "x"),
        ("saxpy", "saxpy"),
    ] {
        assert_eq!(demangle_nvidia(mangled).map(|name| name.short.into_owned()).as_deref(), Some(short));
    }
}

/// NVIDIA's tools leave all of these as they are, but the last three.
#[test]
fn what_cannot_be_read_is_not_guessed() {
    for mangled in [
        "_Z",
        "_Z1",
        "_Z2f",
        "_ZN1A1f",
        "_Z1fS_",
        "_Z1fIiEv",
        "_Zebra",
        "_Z1fvE",
        "_Z1fCd",
        "_Z1fTL0__",
        "_Z1fIiTnPFT_vEXadL_Z1gvEEEvv",
        "_Z5saxpyPdS_S_d_i",
        "_Z1fv.part.0",
        "_ZTV1A",
        "_ZN1AI1BECI2S_Ei",
    ] {
        assert_eq!(demangle_nvidia(mangled), None, "{mangled}");
        assert_eq!(demangle(mangled), None, "{mangled}");
    }
}

/// clang writes static functions with an `L`, which NVIDIA's tools do not read.
#[test]
fn static_functions_can_be_read_but_have_no_name_of_nvidia() {
    assert_eq!(demangle_nvidia("_ZL1fIiEvT_"), None);
    assert_eq!(demangle("_ZL1fIiEvT_").as_deref(), Some("void f<int>(T1)"));
}

#[test]
fn other_names_stand_for_themselves() {
    for name in ["", "triton_poi_fused_add_0", "void f<int>(T1)", "_", "größe"] {
        let expected = Demangled { full: name.into(), short: name.into() };
        assert_eq!(demangle_nvidia(name), Some(expected));
        assert_eq!(demangle(name), None);
    }
}

#[test]
fn malicious_names_end_early() {
    let pairs = |open: &str, close: &str| {
        let mut name = "_Z1f1pIiiE".to_owned();
        for id in "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ".chars() {
            write!(name, "{open}S{id}_S{id}_{close}").unwrap();
        }
        name
    };
    for name in [
        pairs("S_I", "E"),
        pairs("F", "E"),
        pairs("S_IJ", "EE"),
        // Twice the element of each vector, and packs that print nothing.
        format!("_Z1f{}", "Dv2_".repeat(150) + "i"),
        format!("_Z1f1aIJEE{}", (0..30).fold(String::new(), |name, _| name + "S_IJS0_S0_EE")),
        format!("_Z1f{}i", "P".repeat(60_000)),
        format!("_Z1fI{}", "N1aI".repeat(10_000)),
        format!("_ZN{}Ev", "1a".repeat(30_000)),
        format!("_Z1f{}v", "B1a".repeat(20_000)),
        format!("_Z1fI{}EvT_", "X".repeat(30_000)),
        format!("_Z1f1AIX{}E", "nt".repeat(30_000)),
        "_Z".to_owned() + &"Z".repeat(60_000),
        format!("_Z1f{}", "i".repeat(70_000)),
        format!("_Z99999999999999999999{}", "a".repeat(99)),
    ] {
        if let Some(name) = demangle_nvidia(&name) {
            assert!(name.full.len() <= 64 * 1024);
        }
    }
    let nested = format!("_Z1f{}iv", "P".repeat(100));
    assert_eq!(demangle_nvidia(&nested).unwrap().full, format!("f(int {}, void)", "*".repeat(100)));
}
