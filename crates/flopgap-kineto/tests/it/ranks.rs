//! What several ranks say together: of which machine they are, and what each gives to collectives.

use flopgap_kineto::{Job, Trace};
use flopgap_trace::Recording as _;

/// A rank with an all-to-all on a GPU, of a machine with GPUs of these numbers.
fn rank(rank: u64, gpu: u64, gpus: &[u64], given: u64) -> Trace {
    let devices: Vec<String> =
        gpus.iter().map(|id| format!(r#"{{"id":{id},"name":"NVIDIA H200"}}"#)).collect();
    let json = format!(
        r#"{{"deviceProperties":[{}],"distributedInfo":{{"rank":{rank},"world_size":2}},"traceEvents":[
            {{"ph":"X","cat":"kernel","name":"ncclDevKernel_SendRecv","pid":{gpu},"tid":7,"ts":5,"dur":9,
              "args":{{"device":{gpu},"stream":7,"Collective name":"all_to_allv","dtype":"BFloat16",
                "In msg nelems":{given},"Out msg nelems":12,"In split size":"[1, 2]",
                "Process Group Name":"3","Process Group Ranks":"[0, 1]"}}}},
            {{"ph":"X","cat":"kernel","name":"gemm","pid":{gpu},"tid":7,"ts":20,"dur":2,
              "args":{{"device":{gpu},"stream":7}}}}]}}"#,
        devices.join(",")
    );
    Trace::options().without_shapes(true).read(json.as_bytes(), format!("{rank}.json")).unwrap()
}

#[test]
fn what_each_rank_gives_and_gets_is_known() {
    let job = Job::of(vec![rank(0, 0, &[0, 1], 3), rank(1, 1, &[0, 1], 0)]).unwrap();
    let mut found = Vec::new();
    job.each_operation(true, &mut |operation| found.push((operation.name.to_owned(), operation.exchanged)))
        .unwrap();
    let expected = [
        ("ncclDevKernel_SendRecv", Some([6, 24])),
        ("gemm", None),
        ("ncclDevKernel_SendRecv", Some([0, 24])),
        ("gemm", None),
    ];
    assert_eq!(found, expected.map(|(name, exchanged)| (name.to_owned(), exchanged)));
}

#[test]
fn ranks_are_of_one_machine_where_their_gpus_say_so() {
    let is_one = |ranks: [(u64, &[u64]); 2]| {
        let [one, other] = ranks;
        Job::of(vec![rank(0, one.0, one.1, 1), rank(1, other.0, other.1, 1)]).unwrap().is_one_machine()
    };
    assert!(is_one([(0, &[0, 1]), (1, &[0, 1])]));
    // GPUs of one number, lists that differ, and lists that lack a GPU are not proof.
    assert!(!is_one([(0, &[0, 1]), (0, &[0, 1])]));
    assert!(!is_one([(0, &[0, 1]), (1, &[0, 1, 2])]));
    assert!(!is_one([(0, &[0]), (1, &[0])]));
    assert!(!is_one([(0, &[]), (1, &[])]));
    assert!(Job::of(vec![rank(0, 0, &[0], 1)]).unwrap().is_one_machine());
}
