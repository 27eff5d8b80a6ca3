//! The sections of a page, in order.

use flopgap_files::{Hint as _, present};
use flopgap_kernels::{Classifier, KernelClass};
use flopgap_nsys::ReportKind;
use flopgap_report::chart::{Bar, Part, ShareBars, Slice};
use flopgap_report::html::Block;
use flopgap_report::table::{Cell, Column, Table};
use flopgap_report::{ReportError, numbers};
use flopgap_table::Trace;
use flopgap_timings::attention::{self, Names};
use flopgap_timings::compare::{Comparison, compare};
use flopgap_timings::kernels::{Kernels, kernels};
use flopgap_timings::occupancy::Occupancy;
use flopgap_timings::passes::{self, Pass, Passes};
use flopgap_timings::shares::{Shares, Work, shares};
use flopgap_timings::{PassKind, RangePattern, Ranges, Scope};
use flopgap_trace::Recording;

use super::memory::{Calls, call_times};
use super::trace::TracePage;
use super::work::color;
use super::{PageOptions, Sections, busy, memory, ranks, recorded, timeline, work};
use crate::ask;
use crate::error::Error;
use crate::open::Opened;
use crate::sentences::{self, page as page_sentences, time};
use crate::tables::{self, KernelNames, ms};

impl TracePage {
    /// Asks all questions of a trace, and compares its passes with times that were measured
    /// outside, in nanoseconds.
    ///
    /// # Errors
    /// When the trace cannot be read. What it does not hold is skipped.
    pub fn new(trace: &Opened, options: &PageOptions, measured: &[i64]) -> Result<TracePage, Error> {
        let mut page = TracePage::empty(trace)?;
        all(&mut page, trace, options, measured, &Classifier::new())?;
        page.warn(trace);
        Ok(page)
    }
}

/// Makes all sections of one trace.
fn all(
    page: &mut TracePage,
    opened: &Opened,
    options: &PageOptions,
    measured: &[i64],
    classifier: &Classifier,
) -> Result<(), Error> {
    let trace = opened.recording();
    // Read once for all that is asked below; who lacks them says so.
    let _ranges = trace.ranges();
    if options.sections == Sections::First {
        recorded::machine(page, opened)?;
        page.taken_apart = Some(ask::taken_apart(opened, &options.part, timeline::PIECES)?);
        let passes = present(passes::passes(trace, &options.part.passes(measured.to_vec())))?;
        return timeline::section(page, trace, passes.as_ref(), classifier);
    }
    // Both first, so that no more than one list of all operations is held at a time.
    page.taken_apart = present(ask::taken_apart(opened, &options.part, timeline::PIECES))?;
    let devices = work::read(trace, None)?;
    let gaps = work::gaps(&devices, busy::GAPS);
    let gaps = work::described(&gaps, &work::Names::new(&devices, classifier));
    drop(devices);
    // All sections are answered from it. Where it cannot be read, each says what it lacks.
    let _kept = trace.launched(options.part.attribution);
    let activity = match trace.gpu_activity(options.part.attribution) {
        Ok(activity) => activity,
        Err(error) if error.is_absence() => {
            let why = match opened.trace() {
                Trace::Nsys(_) | Trace::Exports(_) => {
                    "; nothing of a GPU was recorded: a profile on WSL2 holds none, and neither does one without `-t cuda`"
                }
                Trace::Kineto(_) => "",
            };
            page.skip(
                "kernels, their shares, attention, memory, and when the GPU was busy",
                format!("{error}{why}"),
            );
            Vec::new()
        }
        Err(error) => return Err(error.into()),
    };
    let calls = match opened.trace() {
        Trace::Nsys(trace) => Calls::Report(recorded::report(trace, ReportKind::CudaApiSum)?),
        Trace::Exports(_) => Calls::Times(call_times(trace)?),
        Trace::Kineto(job) => Calls::Times(job.call_times()),
    };
    let occupancy = if activity.is_empty() {
        Occupancy::default()
    } else {
        Occupancy::read(trace, options.part.attribution)?
    };
    let found = passes::passes(trace, &options.part.passes(measured.to_vec()));
    let passes = page.answer("times of steps and passes", found)?;
    if passes.is_none() {
        page.unmeasured = page.skipped.last().map(|skipped| skipped.why().to_owned());
    }
    timeline::section(page, trace, passes.as_ref(), classifier)?;
    recorded::section(page, opened, &activity, &occupancy, calls.count())?;
    passes_section(page, options, passes.as_ref())?;
    if passes.is_none() {
        let blocked = present(flopgap_timings::blocked_longest(trace))?.flatten();
        page.answers.extend(blocked.as_ref().map(page_sentences::blocked));
    }
    ranges_section(page, trace, options, passes.as_ref())?;
    if !activity.is_empty() {
        kernels_section(page, trace, options, passes.as_ref(), classifier)?;
        shares_section(page, trace, options, passes.as_ref(), classifier)?;
        ranks::section(page, trace, &activity, options, classifier)?;
        attention_section(page, trace, options, classifier)?;
        memory::section(page, opened)?;
    }
    calls.section(page, options)?;
    if !activity.is_empty() {
        busy::section(page, &activity, &occupancy, &gaps)?;
    }
    Ok(())
}

impl PageOptions {
    /// The requested ranges; else the steps of a trace, else its forward pass, else
    /// everything.
    fn whole(&self, passes: Option<&Passes>) -> Scope {
        if let Some(scope) = self.part.named() {
            return scope;
        }
        let worked = passes.iter().flat_map(|passes| &passes.passes).filter(|pass| pass.gpu.is_some());
        let mut ranges = Ranges::All;
        for pass in worked {
            match pass.kind {
                PassKind::Step | PassKind::Decode | PassKind::Prefill => {
                    return self.part.of(Ranges::Steps);
                }
                PassKind::Forward => ranges = Ranges::Shown(pass.name.clone()),
                _ => {}
            }
        }
        self.part.of(ranges)
    }
}

fn passes_section(page: &mut TracePage, options: &PageOptions, found: Option<&Passes>) -> Result<(), Error> {
    let Some(found) = found else { return Ok(()) };
    page.answers.extend(page_sentences::passes(found));
    page.heading(if options.part.ranges.is_empty() { "Steps and passes" } else { "The requested ranges" });
    for table in tables::passes(&page.name, found)? {
        page.push(Block::Table(table));
    }
    page.text(sentences::selection(&found.selection));
    match &found.no_gpu {
        Some(reason) => page.skip("GPU times of steps and passes", reason),
        None => page.text(sentences::owner(found.attribution)),
    }
    Ok(())
}

/// All ranges of the trace, whatever their names say.
fn ranges_section(
    page: &mut TracePage,
    trace: &dyn Recording,
    options: &PageOptions,
    passes: Option<&Passes>,
) -> Result<(), Error> {
    let all = passes::Options {
        ranges: vec![RangePattern::any()],
        no_instances: true,
        ..options.part.passes(Vec::new())
    };
    // That there are no ranges is said of the passes.
    let Some(Passes { passes: mut found, selection, .. }) = present(passes::passes(trace, &all))? else {
        return Ok(());
    };
    // Without GPU work it is the host that takes the time, and a sum counts nothing twice.
    let worked = found.iter().any(|range| range.gpu.is_some());
    found.sort_by_key(|range| {
        let own = range.host_self_ns.filter(|_| !worked).map_or(0, i128::from);
        std::cmp::Reverse((own, range.host.total_ns))
    });
    let more = found.len().saturating_sub(options.top);
    found.truncate(options.top);
    page.heading("Ranges");
    page.table(ranges_table(&found))?;
    let rest = if more > 0 { format!(" {more} more are not shown.") } else { String::new() };
    let most = if worked { "the most time on the host" } else { "the most time of their own on the host" };
    page.text(format!("Those with {most}, numbers of instances and layers folded.{rest} \"Self\" is the time in which no other range lies within them: only these times add up. --range measures any of them."));
    if passes.is_none_or(|passes| passes.selection != selection) {
        page.text(sentences::selection(&selection));
    }
    Ok(())
}

fn ranges_table(ranges: &[Pass]) -> Result<Table, ReportError> {
    let by_process = ranges.iter().any(|range| range.process.is_some());
    let mut columns = vec![Column::text("range", "range")];
    columns.extend(by_process.then(|| Column::text("process", "process")));
    columns.extend([
        Column::text("kind", "kind"),
        Column::number("n", "n").rank(2),
        Column::number("host_total_ms", "host, all").unit("ms").rank(0),
        Column::number("host_self_ms", "host, self").unit("ms"),
        Column::number("host_median_ms", "host, median").unit("ms").rank(2),
    ]);
    let gpu = [
        Column::number("n_gpu", "n with GPU work").rank(2),
        Column::number("gpu_median_ms", "GPU projected, median").unit("ms").rank(2),
        Column::number("busy_median_ms", "GPU busy, median").unit("ms"),
    ];
    let worked = ranges.iter().any(|range| range.gpu.is_some());
    columns.extend(gpu.into_iter().filter(|_| worked));
    let mut table = Table::new("Ranges by time on the host", columns)?;
    for range in ranges {
        let gpu = range.gpu.as_ref();
        let mut row = vec![Cell::text(&range.name)];
        row.extend(by_process.then(|| tables::process_cell(range)));
        row.extend([
            Cell::text(range.kind.as_str()),
            Cell::from(range.host.count),
            ms(range.host.total_ns as f64),
            Cell::optional(range.host_self_ns, |own| ms(own as f64)),
            ms(range.host.median_ns),
        ]);
        let of_gpu = [
            Cell::optional(gpu, |gpu| Cell::from(gpu.projected.count)),
            Cell::optional(gpu, |gpu| ms(gpu.projected.median_ns)),
            Cell::optional(gpu, |gpu| ms(gpu.busy.median_ns)),
        ];
        row.extend(of_gpu.into_iter().filter(|_| worked));
        table.push(row)?;
    }
    Ok(table)
}

fn kernels_section(
    page: &mut TracePage,
    trace: &dyn Recording,
    options: &PageOptions,
    passes: Option<&Passes>,
    classifier: &Classifier,
) -> Result<(), Error> {
    let all = passes.iter().flat_map(|passes| &passes.passes);
    let worked: Vec<_> = all.filter(|pass| pass.gpu.is_some()).collect();
    // Passes of which each is worth a table: prompts and tokens are worked on by different kernels.
    let is_part = |kind| matches!(kind, PassKind::Forward | PassKind::Prefill | PassKind::Decode);
    let parts = worked.iter().filter(|pass| options.part.ranges.is_empty() && is_part(pass.kind));
    let mut scopes: Vec<Scope> = Vec::new();
    for pass in parts {
        // A pass of several processes is there once for each of them.
        let scope = options.part.of(Ranges::Shown(pass.name.clone()));
        if !scopes.contains(&scope) {
            scopes.push(scope);
        }
    }
    let whole = options.whole(passes);
    // A step of nothing but the forward pass would say the same again.
    let more = worked.iter().any(|pass| matches!(pass.kind, PassKind::Backward | PassKind::Optimizer));
    if scopes.is_empty() || (more && !scopes.contains(&whole)) {
        scopes.push(whole);
    }
    let mut begun = false;
    for scope in &scopes {
        let Some(found) = page.answer("kernels", kernels(trace, scope, classifier))? else { continue };
        if !begun {
            page.heading("Kernels");
            begun = true;
        }
        let top = &found.kernels[..options.top.min(found.kernels.len())];
        let title = match found.instances {
            Some(instances) => format!("Kernels launched within `{}` ({instances} instances)", found.scope),
            None => "Kernels".to_owned(),
        };
        page.table(tables::kernels(&title, KernelNames::Short, &found, top))?;
        if found.kernels.len() > top.len() {
            page.text(format!("{} more kernels are not shown.", found.kernels.len() - top.len()));
        }
        page.answers.extend(page_sentences::top(&found));
        page.answers.extend(sentences::spread_of_kernels(&found));
        others(page, &found, options)?;
        if page.overview.top.is_none() {
            page.overview.top = found.kernels.first().map(|kernel| (kernel.short.clone(), kernel.share));
        }
    }
    Ok(())
}

/// The kernels that multiply no matrices.
fn others(page: &mut TracePage, found: &Kernels, options: &PageOptions) -> Result<(), Error> {
    let others: Vec<_> = found
        .kernels
        .iter()
        .filter(|kernel| !page_sentences::is_product(kernel.class))
        .take(options.top)
        .cloned()
        .collect();
    let Some(sentence) = page_sentences::others(found) else { return Ok(()) };
    page.answers.push(sentence);
    let scope = if found.instances.is_some() { format!(" of `{}`", found.scope) } else { String::new() };
    let title = format!("Kernels{scope} other than matrix products");
    page.table(tables::kernels(&title, KernelNames::Short, found, &others))
}

fn shares_section(
    page: &mut TracePage,
    trace: &dyn Recording,
    options: &PageOptions,
    passes: Option<&Passes>,
    classifier: &Classifier,
) -> Result<(), Error> {
    let scope = options.whole(passes);
    let Some(found) = page.answer("shares by kind of work", shares(trace, &scope, classifier))? else {
        return Ok(());
    };
    page.overview.matmul = Some(found.share(Work::Kernels(KernelClass::Matmul)));
    page.answers.extend(page_sentences::shares(&found));
    page.heading("GPU time by kind of work");
    let title = match found.mean_of() {
        Some(mean) => format!("One `{}` ({})", found.scope, sentences::mean_of(mean)),
        None => "Everything recorded".to_owned(),
    };
    let labels: Vec<String> =
        found.places.iter().filter_map(|own| own.place).map(|place| place.to_string()).collect();
    let apart: Vec<(&str, &Shares)> = labels.iter().map(String::as_str).zip(&found.places).collect();
    let traces = if apart.is_empty() { vec![(page.name.as_str(), &found)] } else { apart };
    if let Some(chart) = bars(&title, &traces)? {
        page.push(Block::Shares(chart));
    }
    for own in if found.places.is_empty() { std::slice::from_ref(&found) } else { &found.places } {
        page.table(shares_table(own))?;
    }
    if let Some(ranges) = &found.optimizer {
        page.text(format!(
            "Kernels launched within `{ranges}` count as optimizer, whatever their names tell."
        ));
    }
    Ok(())
}

fn shares_table(found: &Shares) -> Result<Table, ReportError> {
    let place = found.place.map(|place| format!(", {place}")).unwrap_or_default();
    let mut table = Table::new(
        format!("Sums over all instances{place}"),
        [
            Column::text("work", "work"),
            Column::number("kernels", "different kernels").rank(2),
            Column::number("calls", "calls"),
            Column::number("total_ns", "total").unit("ns"),
            Column::number("share", "share").rank(0),
        ],
    )?;
    for share in &found.shares {
        let kernels = matches!(share.work, Work::Kernels(_)).then_some(share.names);
        table.push([
            Cell::text(share.work.as_str()),
            Cell::from(kernels),
            Cell::from(share.calls),
            Cell::from(share.total_ns),
            Cell::percent(share.share, 2),
        ])?;
    }
    Ok(table)
}

/// A bar for each trace, over all kinds of work that any of them has.
fn bars(title: &str, traces: &[(&str, &Shares)]) -> Result<Option<ShareBars>, Error> {
    let mut kinds: Vec<Work> = Vec::new();
    for share in traces.iter().flat_map(|(_, shares)| &shares.shares) {
        if !kinds.contains(&share.work) {
            kinds.push(share.work);
        }
    }
    let part = |work: &Work| Part { label: work.as_str().to_owned(), color: color(*work) };
    let bar = |(name, shares): &(&str, &Shares)| {
        let slice = |work: &Work| {
            let found = shares.shares.iter().find(|share| share.work == *work);
            let each = shares.each(found.map_or(0, |share| share.total_ns));
            // Rows that end before they start make a time below nothing, which cannot be drawn but
            // is written.
            Slice { value: each.max(0.0), text: time(each) }
        };
        Bar {
            label: (*name).to_owned(),
            total: time(shares.each(shares.total_ns)),
            slices: kinds.iter().map(slice).collect(),
        }
    };
    match ShareBars::new(title, kinds.iter().map(part).collect(), traces.iter().map(bar).collect()) {
        Ok(chart) => Ok(Some(chart)),
        Err(ReportError::NothingToDraw { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn attention_section(
    page: &mut TracePage,
    trace: &dyn Recording,
    options: &PageOptions,
    classifier: &Classifier,
) -> Result<(), Error> {
    let names = Names::default();
    if let Some(sizes) = options.attention {
        let options = options.part.attention(sizes, names);
        let Some(found) = page.answer("attention", attention::attention(trace, &options, classifier))? else {
            return Ok(());
        };
        page.answers.extend(sentences::attention_times(&found));
        page.heading("Attention");
        for table in tables::attention(&found)? {
            page.push(Block::Table(table));
        }
        return Ok(());
    }
    // A program that marks none of these ranges lacks nothing.
    let guide = [names.scores, names.softmax, names.weighted_sum];
    let Some(nvtx) = present(trace.ranges())? else { return Ok(()) };
    let is_marked = |range: &RangePattern| nvtx.names.iter().any(|(_, name)| range.to_string() == *name.text);
    if !guide.iter().any(is_marked) {
        return Ok(());
    }
    let mut parts = Vec::new();
    for range in guide {
        let found = shares(trace, &options.part.of(Ranges::Named(vec![range])), classifier);
        let Some(found) = page.answer("attention", found)? else { return Ok(()) };
        parts.push(found);
    }
    let [scores, softmax, weighted] = parts.as_slice() else { return Ok(()) };
    page.answers.extend(page_sentences::attention([scores, softmax, weighted]));
    page.heading("Attention");
    page.table(attention_table(&parts))
}

fn attention_table(parts: &[Shares]) -> Result<Table, ReportError> {
    let mut table = Table::new(
        "GPU time of attention's ranges",
        [
            Column::text("range", "range"),
            Column::number("instances", "n").rank(2),
            Column::number("total_ns", "total").unit("ns"),
            Column::number("mean_ns", "mean").unit("ns"),
            Column::text("work", "work").rank(0),
        ],
    )?;
    for part in parts {
        let kinds =
            part.shares.iter().map(|share| format!("{} {}", share.work, numbers::percent(share.share, 1)));
        table.push([
            Cell::text(&part.scope),
            Cell::from(part.instances),
            Cell::from(part.total_ns),
            Cell::float(part.each(part.total_ns), 1),
            Cell::text(kinds.collect::<Vec<_>>().join(", ")),
        ])?;
    }
    Ok(table)
}

/// Two traces against each other; what could not be compared is said in the sentences.
pub(crate) fn comparison(
    traces: [&Opened; 2],
    options: &PageOptions,
    classifier: &Classifier,
    said: &mut Vec<String>,
) -> Result<Vec<Block>, Error> {
    let [a, b] = traces.map(Opened::recording);
    let both = match options.part.of_both(a, b).and_then(|scope| {
        let found = compare((a, &scope), (b, &scope), classifier)?;
        let tops = [kernels(a, &scope, classifier)?, kernels(b, &scope, classifier)?];
        Ok((found, tops))
    }) {
        Ok(found) => found,
        Err(error) if error.is_absence() => {
            said.push(format!("SKIPPED: comparison: {error}"));
            return Ok(Vec::new());
        }
        Err(error) => return Err(error.into()),
    };
    let (found, [top_a, top_b]) = both;
    said.extend(sentences::compare_times(&found));
    let same = sentences::same_top(&top_a, &top_b);
    said.extend(same.map(|text| format!("The kernel with the most time: {}", sentences::lower_first(&text))));
    let names = traces.map(Opened::name);
    let mut blocks = vec![Block::Heading("A against B".to_owned()), Block::Text(compared(&found))];
    if let Some(chart) = bars("GPU time by kind of work", &[(&names[0], &found.a), (&names[1], &found.b)])? {
        blocks.push(Block::Shares(chart));
    }
    let tables = tables::comparison(&found)?;
    blocks.extend(tables.into_iter().map(Block::Table));
    Ok(blocks)
}

fn compared(found: &Comparison) -> String {
    format!("A: {}; B: {}.", sentences::of_scope(&found.a), sentences::of_scope(&found.b))
}
