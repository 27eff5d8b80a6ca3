// Tables: sort by a click, filter by words.
(() => {
  const SMALL_TABLE = 12;
  // More rows are not printed; the style sheet says the same.
  const PRINTED = 100;
  const NUMBERS = /\d+(?:,\d{3})*(?:\.\d+)?/g;

  const ungrouped = (text) => text.replace(/,(?=\d{3})/g, "");

  // Displayed numbers as values that compare: integers exactly, whatever their size; absent ones as null.
  function sortKey(text) {
    if (text === "-" || text === "") return null;
    const plain = text.replace(/,/g, "").replace(/%$/, "");
    if (/^[+-]?\d+$/.test(plain)) return BigInt(plain.replace("+", ""));
    const number = Number(plain.replace(/^([+-]?)inf$/, "$1Infinity"));
    return Number.isNaN(number) ? text : number;
  }

  function compare(a, b) {
    const words = typeof a === "string" || typeof b === "string";
    if (words) return String(a).localeCompare(String(b), "en", { numeric: true });
    return a < b ? -1 : a > b ? 1 : 0;
  }

  function sortBy(table, column, descending) {
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => ({ row, key: sortKey(row.cells[column].textContent) }));
    rows.sort((a, b) => {
      // What was not measured stays at the end in both directions.
      if (a.key === null || b.key === null) return (a.key === null) - (b.key === null);
      return descending ? compare(b.key, a.key) : compare(a.key, b.key);
    });
    body.append(...rows.map((entry) => entry.row));
  }

  // A word as a question about the cells of a row. `d=2048` asks one column for one value; a whole number asks for a cell with
  // just that number, however it is grouped; a number with a point for one that begins so; other words for a part of a cell.
  function matcher(word, headings) {
    const [, name, value] = word.match(/^([^=]+)=(.+)$/) ?? [];
    const column = name === undefined ? -1 : headings.findIndex((heading) => heading === name || heading.startsWith(`${name} (`));
    if (column >= 0) {
      const wanted = sortKey(value);
      return (cells) => cells[column].text === value || (wanted !== null && cells[column].key === wanted);
    }
    const number = ungrouped(word);
    if (/^\d+$/.test(number)) return (cells) => cells.some((cell) => cell.numbers.includes(number));
    if (/^\d+\.\d*$/.test(number)) return (cells) => cells.some((cell) => cell.numbers.some((one) => one.startsWith(number)));
    return (cells) => cells.some((cell) => cell.text.includes(word));
  }

  function read(cell) {
    const text = cell.textContent.toLowerCase();
    return { text, key: sortKey(text), numbers: (text.match(NUMBERS) ?? []).map(ungrouped) };
  }

  function addFilter(table, headings, place, name) {
    const rows = [...table.tBodies[0].rows];
    let cells = null;
    const count = (number) => number.toLocaleString("en-US");
    const names = headings.map((cell) => cell.textContent.toLowerCase());
    const numeric = headings.findIndex((cell) => cell.classList.contains("n") && !cell.textContent.includes(" "));
    const example = numeric < 0 ? "" : `, such as ${names[numeric]}=${ungrouped(rows[rows.length >> 1].cells[numeric].textContent)}`;
    const filter = document.createElement("input");
    filter.className = "filter";
    filter.type = "search";
    filter.placeholder = `Filter ${count(rows.length)} rows${example}`;
    filter.setAttribute("aria-label", filter.placeholder);
    const found = document.createElement("span");
    found.className = "note found";
    found.setAttribute("role", "status");
    const printed = place.nextElementSibling?.matches(".print-only") ? place.nextElementSibling : null;
    filter.addEventListener("input", () => {
      address.set(name, filter.value || null);
      cells ??= new Map(rows.map((row) => [row, [...row.cells].map(read)]));
      const matchers = filter.value.toLowerCase().split(/\s+/).filter(Boolean).map((word) => matcher(word, names));
      let shown = 0;
      for (const row of rows) {
        row.hidden = !matchers.every((matches) => matches(cells.get(row)));
        if (!row.hidden) shown += 1;
      }
      found.textContent = matchers.length > 0 ? `${count(shown)} of ${count(rows.length)} rows` : "";
      if (printed) {
        printed.hidden = shown <= PRINTED;
        printed.querySelector("span").textContent = count(shown);
      }
    });
    place.before(filter, found);
    address.keep(name, (value) => {
      filter.value = value ?? "";
      filter.dispatchEvent(new Event("input"));
    });
  }

  document.querySelectorAll("table.data").forEach((table, n) => {
    const headings = [...table.tHead.rows[0].cells];
    const rows = [...table.tBodies[0].rows];
    // By a column, or where that is undefined, as they were.
    function sort(column, descending) {
      headings.forEach((other) => other.removeAttribute("aria-sort"));
      if (column === undefined) table.tBodies[0].append(...rows);
      else {
        headings[column].setAttribute("aria-sort", descending ? "descending" : "ascending");
        sortBy(table, column, descending);
      }
    }
    headings.forEach((heading, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...heading.childNodes);
      heading.append(button);
      button.addEventListener("click", () => {
        const descending = heading.getAttribute("aria-sort") === "ascending";
        sort(column, descending);
        address.set(`sort${n}`, `${column}${descending ? "down" : "up"}`);
      });
    });
    if (rows.length > SMALL_TABLE) addFilter(table, headings, table.parentElement, `filter${n}`);
    address.keep(`sort${n}`, (value) => {
      const [, column, direction] = value?.match(/^(\d+)(up|down)$/) ?? [];
      sort(column in headings ? Number(column) : undefined, direction === "down");
    });
  });

  // A region that goes on sideways fades at that edge, and a line above it says so.
  function cue(region) {
    const said = document.createElement("p");
    said.className = "note scroll-cue";
    said.textContent = "Scroll sideways for more columns \u2192";
    said.hidden = true;
    region.before(said);
    const update = () => {
      const rest = region.scrollWidth - region.clientWidth;
      said.hidden = rest <= 1;
      region.classList.toggle("more-left", rest > 1 && region.scrollLeft > 1);
      region.classList.toggle("more-right", rest - region.scrollLeft > 1);
    };
    region.addEventListener("scroll", update, { passive: true });
    const sizes = new ResizeObserver(update);
    sizes.observe(region);
    if (region.firstElementChild) sizes.observe(region.firstElementChild);
  }
  function cueAll() {
    for (const region of document.querySelectorAll(".scroll:not([data-cued])")) {
      region.dataset.cued = "";
      cue(region);
    }
  }
  cueAll();
  // Some regions come later, such as what a chosen cell is made of.
  new MutationObserver(cueAll).observe(document.body, { childList: true, subtree: true });
})();
