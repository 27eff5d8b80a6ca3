"""The same table in four libraries, each imported in its own way, without a copy in between."""

import flopgap
import pytest
from conftest import missing

TRACES = ["small_training_step", "streams_domains", "two_gpus"]


def by_hand(path):
    sums = {}
    for row in flopgap.read(path).kernels.select("name", "class", "duration_ns").to_dicts():
        key = (row["name"], row["class"])
        sums[key] = sums.get(key, 0) + row["duration_ns"]
    return sums


@pytest.fixture(params=TRACES)
def trace(request):
    return f"fixtures/nsys/{request.param}.sqlite.zst"


def test_polars(trace):
    pl = missing("polars")
    frame = pl.DataFrame(flopgap.read(trace).kernels)
    sums = frame.group_by("name", "class").agg(pl.col("duration_ns").sum())
    assert {(name, kind): total for name, kind, total in sums.iter_rows()} == by_hand(trace)


def test_pandas(trace):
    pd = missing("pandas")
    missing("pyarrow")
    table = flopgap.read(trace).kernels
    if hasattr(pd.DataFrame, "from_arrow"):
        frame = pd.DataFrame.from_arrow(table)
    else:
        import pyarrow

        frame = pyarrow.table(table).to_pandas()
    sums = frame.groupby(["name", "class"], observed=True)["duration_ns"].sum()
    assert {key: int(total) for key, total in sums.items()} == by_hand(trace)


def test_pyarrow(trace):
    pyarrow = missing("pyarrow")
    source = flopgap.read(trace)
    table = pyarrow.table(source.kernels)
    table.validate(full=True)
    sums = table.group_by(["name", "class"]).aggregate([("duration_ns", "sum")]).to_pylist()
    assert {(row["name"], row["class"]): row["duration_ns_sum"] for row in sums} == by_hand(trace)
    assert pyarrow.schema(source.kernels).equals(table.schema)
    assert table.schema.field("duration_ns").metadata[b"description"].startswith(b"From start")
    # A reader takes one batch after the other.
    with pyarrow.RecordBatchReader.from_stream(source.kernels) as reader:
        assert sum(batch.num_rows for batch in reader) == table.num_rows


def test_duckdb(trace):
    duckdb = missing("duckdb")
    kernels = flopgap.read(trace).kernels  # noqa: F841: the query names it
    sums = duckdb.sql("select name, class, sum(duration_ns)::bigint from kernels group by all").fetchall()
    assert {(name, kind): total for name, kind, total in sums} == by_hand(trace)


def test_every_table_of_every_source_is_sound(fixtures):
    """Arrow's own check of offsets, keys and nulls, and dictionaries with unique values, which pandas insists on."""
    pyarrow = missing("pyarrow")
    paths = sorted((fixtures / "nsys").glob("*.sqlite.zst"))
    paths += [fixtures / "ncu/lm_details.csv.zst", fixtures / "ncu/full_raw.csv.zst", fixtures / "ncu/h200_kernels_graph_nvtx.ncu-rep"]
    paths += [fixtures / "kineto/mlp_n10_d1024_m128.json.gz", fixtures / "runs/h200-pytorch", fixtures / "runs/h200-small"]
    seen = 0
    for path in paths:
        source = flopgap.read(path)
        for name in source.tables:
            if (path.name, name) in {("h200-small", "metrics"), ("h200-small", "overheads")}:
                continue
            table = pyarrow.table(source[name])
            table.validate(full=True)
            for column in table.columns:
                for chunk in column.chunks:
                    if isinstance(chunk, pyarrow.DictionaryArray):
                        assert len(set(chunk.dictionary.to_pylist())) == len(chunk.dictionary)
            if table.num_rows <= 20_000:
                assert source[name].to_dicts() == table.to_pylist(), (path, name)
            seen += 1
    assert seen > 60


#: A kind of work, and kernels by a part of their name: what one asks first.
FIRST, PART = "matmul", "gemm"


def by_hand_again(path):
    rows = flopgap.read(path).kernels.select("name", "class").to_dicts()
    return sum(row["class"] == FIRST for row in rows), sum(PART in row["name"] for row in rows)


def two_tables():
    """Of two traces, whose dictionaries differ."""
    return [flopgap.read(f"fixtures/nsys/{name}.sqlite.zst").kernels for name in ("small_forward", "small_training_step")]


def test_categories_of_polars(trace):
    pl = missing("polars")
    frame = pl.DataFrame(flopgap.read(trace).kernels)
    of_kind, named = by_hand_again(trace)
    assert frame.filter(pl.col("class") == FIRST).height == of_kind
    assert frame.filter(pl.col("class").is_in([FIRST])).height == of_kind
    assert frame.filter(pl.col("name").cast(pl.String).str.contains(PART)).height == named
    a, b = (pl.DataFrame(table) for table in two_tables())
    both = pl.concat([a, b])
    assert both.filter(pl.col("class") == FIRST).height == sum((one["class"] == FIRST).sum() for one in (a, b))
    kinds = a.select("class").unique().join(b.select("class").unique(), on="class")
    assert set(kinds["class"]) == set(a["class"]) & set(b["class"])
    assert both["class"].unique().cast(pl.String).sort().to_list() == sorted(set(both["class"]))


def test_categories_of_pandas(trace):
    pd = missing("pandas")
    missing("pyarrow")
    frame = pd.DataFrame.from_arrow(flopgap.read(trace).kernels)
    of_kind, named = by_hand_again(trace)
    assert (frame["class"] == FIRST).sum() == of_kind
    assert frame["name"].str.contains(PART).sum() == named
    a, b = (pd.DataFrame.from_arrow(table) for table in two_tables())
    both = pd.concat([a, b], ignore_index=True)
    assert both.groupby("class")["duration_ns"].sum()[FIRST] == sum(one.loc[one["class"] == FIRST, "duration_ns"].sum() for one in (a, b))
    kinds = a[["class"]].drop_duplicates().merge(b[["class"]].drop_duplicates())
    assert set(kinds["class"]) == set(a["class"]) & set(b["class"])
    assert frame.astype({"class": str})["class"].add("!").iloc[0] == f"{frame['class'].iloc[0]}!"
