//! Counters on a real GPU.

use std::thread;

use flopgap_gpu::counters::{Chip, CounterError, CounterSession, LaunchCounts, Preset, Regions, Rows};
use flopgap_gpu::{Context, GpuError, Stream};

use crate::gpu;
use crate::work::{kernel, launch};

/// A GPU with a session for 32-bit FLOPs; `None` where there is no GPU.
fn session(context: &Context, presets: &[Preset]) -> Option<CounterSession> {
    if !crate::has_cupti() {
        return None;
    }
    let chip = match Chip::new(context) {
        Err(error @ CounterError::Privileges { .. }) => return flopgap_testing::none("privileges", error),
        chip => chip.unwrap(),
    };
    let metrics: Vec<String> = presets.iter().flat_map(|preset| chip.preset(*preset)).collect();
    match CounterSession::on_chip(context, &chip, &metrics) {
        Err(error @ CounterError::Privileges { .. }) => flopgap_testing::none("privileges", error),
        session => Some(session.unwrap()),
    }
}

/// fadd, fmul and ffma of a launch of one of the kernels.
fn expected(name: &str, (blocks, threads, steps): (u32, u32, i32)) -> [u64; 3] {
    let count = u64::from(blocks) * u64::from(threads) * u64::from(steps.unsigned_abs());
    ["count_fadd", "count_fmul", "count_ffma"].map(|kernel| if kernel == name { count } else { 0 })
}

const SHAPES: [(u32, u32, i32); 5] = [(1, 1, 1), (1, 32, 0), (7, 96, 33), (132, 256, 1000), (3, 1024, 5)];
const NAMES: [&str; 3] = ["count_fadd", "count_fmul", "count_ffma"];

#[test]
fn each_launch_has_its_exact_counts_its_name_and_its_region() {
    let Some((context, _guard)) = gpu() else { return };
    let Some(mut session) = session(&context, &[Preset::Flops]) else { return };
    assert_eq!(session.passes(), 1);
    let stream = context.stream().unwrap();
    let kernels = NAMES.map(|name| kernel(&context, name).unwrap());
    let mut x = stream.zeros::<f32>(132 * 256).unwrap();
    let mut runs = Vec::new();
    for _ in 0..2 {
        let rows = session
            .per_launch(100, &mut |regions| {
                regions.within("outer", |regions| {
                    for (name, kernel) in NAMES.iter().zip(&kernels) {
                        regions.within(name, |_| {
                            SHAPES.iter().try_for_each(|shape| launch(&stream, kernel, &mut x, *shape))?;
                            Ok::<_, CounterError>(())
                        })?;
                    }
                    Ok::<_, CounterError>(())
                })?;
                launch(&stream, &kernels[0], &mut x, SHAPES[0])?;
                Ok(())
            })
            .unwrap();
        assert_eq!(rows.len(), NAMES.len() * SHAPES.len() + 1);
        let cases = NAMES.iter().flat_map(|name| SHAPES.iter().map(move |shape| (name, shape)));
        for (row, (name, shape)) in rows.iter().zip(cases) {
            assert_eq!(&*row.launch.symbol, *name);
            assert_eq!(row.launch.grid, [shape.0, 1, 1]);
            assert_eq!(row.launch.block, [shape.1, 1, 1]);
            assert_eq!(row.region.as_deref(), Some(format!("outer/{name}").as_str()));
            assert_eq!(row.counts[..3], expected(name, *shape), "{name} {shape:?}");
        }
        assert_eq!(rows.last().unwrap().region, None);
        runs.push(rows);
    }
    assert_eq!(runs[0], runs[1], "two runs count the same");
}

#[test]
fn regions_sum_their_launches() {
    let Some((context, _guard)) = gpu() else { return };
    let Some(mut session) = session(&context, &[Preset::Flops]) else { return };
    let stream = context.stream().unwrap();
    let ffma = kernel(&context, "count_ffma").unwrap();
    let mut x = stream.zeros::<f32>(132 * 256).unwrap();
    let shapes = [(2, 64, 10), (1, 32, 7)];
    for _ in 0..2 {
        let rows = session
            .per_region(10, &mut |regions| {
                // Outside regions: not counted.
                launch(&stream, &ffma, &mut x, (1, 32, 1000))?;
                for name in ["first", "second"] {
                    regions.within(name, |_| {
                        shapes.iter().try_for_each(|shape| launch(&stream, &ffma, &mut x, *shape))?;
                        Ok::<_, CounterError>(())
                    })?;
                }
                regions.within("nothing", |_| Ok::<_, CounterError>(()))?;
                Ok(())
            })
            .unwrap();
        let of = |index: usize| (&*rows[index].region, rows[index].launches.len(), rows[index].counts[2]);
        assert_eq!(of(0), ("first", 2, 2 * 64 * 10 + 32 * 7));
        assert_eq!(of(1), ("second", 2, 2 * 64 * 10 + 32 * 7));
        assert_eq!(of(2), ("nothing", 0, 0));
        still_counts(&mut session, &context, &stream);
    }
}

#[test]
fn graphs_are_counted_by_hardware_and_refused_for_instructions() {
    let Some((context, _guard)) = gpu() else { return };
    let Some(mut bytes) = session(&context, &[Preset::Bytes]) else { return };
    let stream = context.stream().unwrap();
    let ffma = kernel(&context, "count_ffma").unwrap();
    let mut x = stream.zeros::<f32>(132 * 1024).unwrap();
    let shape = (132, 1024, 1);
    let graph = stream.capture(|| launch(&stream, &ffma, &mut x, shape)).unwrap();
    let rows = bytes
        .per_region(10, &mut |regions| {
            regions.within("launch", |_| Ok::<_, CounterError>(launch(&stream, &ffma, &mut x, shape)?))?;
            regions.within("graph", |_| Ok::<_, CounterError>(graph.launch()?))?;
            Ok(())
        })
        .unwrap();
    let l1 = bytes.metrics().iter().position(|metric| metric.starts_with("l1tex__t_bytes")).unwrap();
    // Each thread reads and writes 4 bytes.
    assert_eq!(rows[0].counts[l1], 132 * 1024 * 8, "{rows:?}");
    assert_eq!(rows[1].counts[l1], rows[0].counts[l1], "{rows:?}");
    assert_eq!(rows[1].graphs, 1);
    drop(bytes);

    let mut flops = session(&context, &[Preset::Flops]).unwrap();
    let error = flops
        .per_region(10, &mut |regions| {
            Ok(regions.within("graph", |_| Ok::<_, CounterError>(graph.launch()?))?)
        })
        .unwrap_err();
    assert!(matches!(error, CounterError::Graphs { graphs: 1 }), "{error}");
    still_counts(&mut flops, &context, &stream);
}

#[test]
fn metrics_of_several_passes_are_counted_by_running_again() {
    let Some((context, _guard)) = gpu() else { return };
    let Some(mut session) = session(&context, &[Preset::FlopsAll, Preset::Bytes, Preset::Time]) else {
        return;
    };
    let passes = session.passes();
    assert!(passes > 1);
    let stream = context.stream().unwrap();
    let ffma = kernel(&context, "count_ffma").unwrap();
    let mut x = stream.zeros::<f32>(132 * 256).unwrap();
    let mut runs = 0;
    let rows = session
        .per_launch(10, &mut |_| {
            runs += 1;
            SHAPES.iter().try_for_each(|shape| launch(&stream, &ffma, &mut x, *shape))?;
            Ok(())
        })
        .unwrap();
    assert_eq!(runs, passes);
    let of = |row: usize, metric: &str| {
        let index = session.metrics().iter().position(|name| name.contains(metric)).unwrap();
        rows[row].counts[index]
    };
    for (row, shape) in SHAPES.iter().enumerate() {
        assert_eq!(of(row, "op_ffma_pred"), expected("count_ffma", *shape)[2]);
        assert_eq!(of(row, "op_dfma"), 0);
        assert!(of(row, "gpu__time_duration") > 0);
    }
    assert!(of(3, "lts__t_bytes") > 0);

    let mut changing = 0;
    let error = session
        .per_launch(10, &mut |_| {
            changing += 1;
            launch(&stream, &ffma, &mut x, (changing, 32, 1))?;
            Ok(())
        })
        .unwrap_err();
    assert!(matches!(error, CounterError::NotRepeatable { pass: 2, .. }), "{error}");
}

/// The session counts a known launch: it can be used after whatever happened before.
fn still_counts(session: &mut CounterSession, context: &Context, stream: &Stream) {
    let ffma = kernel(context, "count_ffma").unwrap();
    let mut x = stream.zeros::<f32>(64).unwrap();
    let rows = session
        .per_launch(4, &mut |_| {
            launch(stream, &ffma, &mut x, (2, 32, 9))?;
            launch(stream, &ffma, &mut x, (1, 32, 9))?;
            Ok(())
        })
        .unwrap();
    let counts: Vec<u64> = rows.iter().map(|row| row.counts[2]).collect();
    assert_eq!(counts, [576, 288]);
}

#[test]
fn a_session_survives_errors_of_the_work() {
    let Some((context, _guard)) = gpu() else { return };
    let Some(mut session) = session(&context, &[Preset::Flops]) else { return };
    let stream = context.stream().unwrap();
    let ffma = kernel(&context, "count_ffma").unwrap();
    let mut x = stream.zeros::<f32>(64).unwrap();
    let graph = stream.capture(|| launch(&stream, &ffma, &mut x, (1, 32, 1))).unwrap();

    let error = session.per_launch(4, &mut |_| Err("stopped".into())).unwrap_err();
    assert_eq!(error.to_string(), "stopped");
    still_counts(&mut session, &context, &stream);

    let error = session
        .per_region(4, &mut |regions| {
            regions.enter("left open")?;
            launch(&stream, &ffma, &mut x, (1, 32, 1))?;
            Err("stopped in a region".into())
        })
        .unwrap_err();
    assert_eq!(error.to_string(), "stopped in a region");
    still_counts(&mut session, &context, &stream);

    let error = session.per_region(4, &mut |regions| Ok(regions.enter("never left")?)).unwrap_err();
    assert!(error.to_string().contains("never left"), "{error}");
    let error = session.per_region(4, &mut |regions| Ok(regions.leave()?)).unwrap_err();
    assert!(matches!(error, CounterError::NoRegion { .. }), "{error}");
    let error = session.per_launch(4, &mut |_| Ok(graph.launch()?)).unwrap_err();
    assert!(matches!(error, CounterError::Graphs { graphs: 1 }), "{error}");
    still_counts(&mut session, &context, &stream);

    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = session.per_region(4, &mut |regions| {
            regions.enter("panics")?;
            panic!("on purpose");
        });
    }));
    assert!(panicked.is_err());
    still_counts(&mut session, &context, &stream);
}

#[test]
fn there_is_room_for_more_rows_than_were_expected() {
    let Some((context, _guard)) = gpu() else { return };
    let stream = context.stream().unwrap();
    let ffma = kernel(&context, "count_ffma").unwrap();
    let mut x = stream.zeros::<f32>(64).unwrap();
    // Instructions in one pass and in several, and what hardware counts, in several images each.
    for presets in [&[Preset::Flops][..], &[Preset::Flops, Preset::Time]] {
        let Some(mut session) = session(&context, presets) else { return };
        let counted = session.metrics().iter().position(|metric| metric.contains("ffma")).unwrap();
        for (count, expected) in [(2, 2), (3, 1), (40, 40), (400, 400), (399, 7), (1, 1), (1000, 64)] {
            let rows = session
                .per_launch(expected, &mut |_| {
                    (0..count).try_for_each(|step| launch(&stream, &ffma, &mut x, (1, 32, step)))?;
                    Ok(())
                })
                .unwrap();
            assert_eq!(rows.len(), usize::try_from(count).unwrap(), "{expected}");
            for (step, row) in (0..).zip(rows) {
                assert_eq!(row.counts[counted], 32 * step, "{count}, {expected}");
            }
            let rows = session
                .per_region(expected, &mut |regions| {
                    (0..count).try_for_each(|step| {
                        regions.within("outer", |regions| {
                            launch(&stream, &ffma, &mut x, (1, 32, step))?;
                            regions.within("inner", |_| {
                                launch(&stream, &ffma, &mut x, (2, 32, step))?;
                                Ok::<_, CounterError>(())
                            })
                        })
                    })?;
                    Ok(())
                })
                .unwrap();
            assert_eq!(rows.len(), 2 * usize::try_from(count).unwrap(), "{expected}");
            for (step, pair) in (0..).zip(rows.chunks(2)) {
                let counts = [&pair[0], &pair[1]].map(|row| row.counts[counted]);
                assert_eq!(counts, [32 * step, 64 * step], "{count}, {expected}");
            }
        }
    }
}

#[test]
fn gpus_are_counted_one_after_the_other() {
    let Some((first, _guard)) = gpu() else { return };
    let second = match Context::new(1) {
        Ok(context) => context,
        Err(error) => return flopgap_testing::skip("second gpu", error),
    };
    for context in [&first, &second, &first] {
        let Some(mut session) = session(context, &[Preset::Flops]) else { return };
        let other = if context.device().index == 0 { &second } else { &first };
        let error = CounterSession::new(other, session.metrics()).unwrap_err();
        assert!(matches!(error, CounterError::Busy { .. }), "{error}");
        still_counts(&mut session, context, &context.stream().unwrap());
    }
}

#[test]
fn work_without_kernels_has_no_rows_and_copies_are_no_launches() {
    let Some((context, _guard)) = gpu() else { return };
    let Some(mut session) = session(&context, &[Preset::Flops]) else { return };
    let stream = context.stream().unwrap();
    assert_eq!(session.per_launch(4, &mut |_| Ok(())).unwrap(), []);
    assert_eq!(session.per_region(4, &mut |_| Ok(())).unwrap(), []);
    let ffma = kernel(&context, "count_ffma").unwrap();
    let rows = session
        .per_launch(4, &mut |_| {
            // Fills and copies, between which the launch must keep its row.
            let mut x = stream.zeros::<f32>(64)?;
            stream.write(&[1.0; 64], &mut x)?;
            launch(&stream, &ffma, &mut x, (1, 32, 3))?;
            stream.download(&x)?;
            Ok(())
        })
        .unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].counts[2], 96);
}

/// The same launches, with their regions and without counts, and the kernels have run.
#[test]
fn launches_are_seen_without_being_counted() {
    let Some((context, _guard)) = gpu() else { return };
    let Some(mut session) = session(&context, &[Preset::Flops]) else { return };
    let stream = context.stream().unwrap();
    let ffma = kernel(&context, "count_ffma").unwrap();
    let mut x = stream.zeros::<f32>(64).unwrap();
    let graph = stream.capture(|| launch(&stream, &ffma, &mut x, (1, 32, 1))).unwrap();
    let mut work = |regions: &mut dyn Regions| {
        regions.within("outer", |regions| {
            launch(&stream, &ffma, &mut x, (1, 32, 5))?;
            regions.within("inner", |_| Ok::<_, CounterError>(launch(&stream, &ffma, &mut x, (2, 32, 7))?))
        })?;
        Ok(())
    };
    for _ in 0..2 {
        let uncounted = session.uncounted(&mut work).unwrap();
        let counted = session.per_launch(2, &mut work).unwrap();
        let place = |row: &LaunchCounts| (row.launch.clone(), row.region.clone());
        assert_eq!(
            uncounted.iter().map(place).collect::<Vec<_>>(),
            counted.iter().map(place).collect::<Vec<_>>()
        );
        assert!(uncounted.iter().all(|row| row.counts.is_empty()));
        assert_eq!(uncounted[1].region.as_deref(), Some("outer/inner"));
    }
    let error = session.uncounted(&mut |_| Err("stopped".into())).unwrap_err();
    assert_eq!(error.to_string(), "stopped");
    let error = session.uncounted(&mut |regions| Ok(regions.enter("never left")?)).unwrap_err();
    assert!(error.to_string().contains("never left"), "{error}");
    let error = session.uncounted(&mut |_| Ok(graph.launch()?)).unwrap_err();
    assert!(matches!(error, CounterError::Graphs { graphs: 1 }), "{error}");
    still_counts(&mut session, &context, &stream);
}

#[test]
fn one_session_a_gpu() {
    let Some((context, _guard)) = gpu() else { return };
    let Some(mut session) = session(&context, &[Preset::Flops]) else { return };
    let metrics = session.metrics().to_vec();
    let error = CounterSession::new(&context, &metrics).unwrap_err();
    assert!(matches!(error, CounterError::Busy { .. }), "{error}");
    let stream = context.stream().unwrap();
    still_counts(&mut session, &context, &stream);
    drop(session);
    // The next session on the same GPU works.
    let mut next = CounterSession::new(&context, &metrics).unwrap();
    still_counts(&mut next, &context, &stream);
}

/// Every thread launches kernels of its own shape: each row must have the counts that follow from
/// its shape.
#[test]
fn launches_of_several_threads_keep_their_counts() {
    const THREADS: u32 = 4;
    const EACH: i32 = 25;
    let Some((context, _guard)) = gpu() else { return };
    let Some(mut session) = session(&context, &[Preset::Flops]) else { return };
    let kernels = NAMES.map(|name| kernel(&context, name).unwrap());
    for _ in 0..3 {
        let rows = session
            .per_launch((THREADS as usize) * (EACH as usize), &mut |_| {
                let worked: Result<(), GpuError> = thread::scope(|scope| {
                    let threads: Vec<_> = (0..THREADS)
                        .map(|index| {
                            let (context, kernels) = (&context, &kernels);
                            scope.spawn(move || {
                                let stream = context.stream()?;
                                let mut x = stream.zeros::<f32>(1024)?;
                                (0..EACH).try_for_each(|step| {
                                    let kernel =
                                        &kernels[(index as usize + usize::try_from(step).unwrap()) % 3];
                                    launch(&stream, kernel, &mut x, (index + 1, 32, step))
                                })?;
                                stream.synchronize()
                            })
                        })
                        .collect();
                    threads.into_iter().try_for_each(|thread| thread.join().unwrap())
                });
                Ok(worked?)
            })
            .unwrap();
        assert_eq!(rows.len(), (THREADS as usize) * (EACH as usize));
        for index in 0..THREADS {
            let own: Vec<_> = rows.iter().filter(|row| row.launch.grid == [index + 1, 1, 1]).collect();
            assert_eq!(own.len(), usize::try_from(EACH).unwrap());
            for (step, row) in (0..EACH).zip(own) {
                let name = NAMES[(index as usize + usize::try_from(step).unwrap()) % 3];
                assert_eq!(&*row.launch.symbol, name);
                assert_eq!(row.counts, expected(name, (index + 1, 32, step)), "thread {index}, step {step}");
            }
        }
    }
}

/// The innermost region has the launches, also from another thread than the one that began to
/// count.
#[test]
fn nested_regions_have_what_is_theirs() {
    let Some((context, _guard)) = gpu() else { return };
    let Some(mut session) = session(&context, &[Preset::Flops]) else { return };
    let stream = context.stream().unwrap();
    let ffma = kernel(&context, "count_ffma").unwrap();
    let mut x = stream.zeros::<f32>(64).unwrap();
    let rows = session
        .per_region(8, &mut |regions| {
            regions.within("outer", |regions| {
                launch(&stream, &ffma, &mut x, (1, 32, 1))?;
                regions.within("inner", |_| {
                    launch(&stream, &ffma, &mut x, (1, 32, 10))?;
                    Ok::<_, CounterError>(())
                })?;
                launch(&stream, &ffma, &mut x, (1, 32, 100))?;
                Ok::<_, CounterError>(())
            })?;
            Ok(())
        })
        .unwrap();
    let of = |index: usize| (&*rows[index].region, rows[index].launches.len(), rows[index].counts[2]);
    assert_eq!(of(0), ("outer", 2, 32 * 101));
    assert_eq!(of(1), ("outer/inner", 1, 320));

    session.begin(Rows::Regions, 8).unwrap();
    session.start_pass().unwrap();
    session.enter("first").unwrap();
    launch(&stream, &ffma, &mut x, (1, 32, 1)).unwrap();
    let (other, mut y) = (context.stream().unwrap(), stream.zeros::<f32>(64).unwrap());
    thread::scope(|scope| {
        let (session, ffma) = (&mut session, &ffma);
        scope.spawn(move || {
            session.enter("of a thread").unwrap();
            launch(&other, ffma, &mut y, (1, 32, 10)).unwrap();
            session.leave().unwrap();
        });
    });
    session.leave().unwrap();
    assert!(session.end_pass().unwrap());
    let rows = session.regions().unwrap();
    let of = |index: usize| (&*rows[index].region, rows[index].counts[2]);
    assert_eq!(of(0), ("first", 32));
    assert_eq!(of(1), ("first/of a thread", 320));
    assert!(session.regions().is_err(), "counts are handed out once");
    assert!(session.end_pass().is_err() && session.enter("x").is_err());
    still_counts(&mut session, &context, &stream);
}
