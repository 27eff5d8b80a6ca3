"use strict";
// Tables: sort by a click, filter by a word.
(() => {
  const SMALL_TABLE = 12;

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

  for (const table of document.querySelectorAll("table.data")) {
    const headings = [...table.tHead.rows[0].cells];
    headings.forEach((heading, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...heading.childNodes);
      heading.append(button);
      button.addEventListener("click", () => {
        const descending = heading.getAttribute("aria-sort") === "ascending";
        headings.forEach((other) => other.removeAttribute("aria-sort"));
        heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
        sortBy(table, column, descending);
      });
    });
    const rows = [...table.tBodies[0].rows];
    if (rows.length > SMALL_TABLE) {
      const filter = document.createElement("input");
      filter.className = "filter";
      filter.type = "search";
      filter.placeholder = `Filter ${rows.length} rows`;
      filter.setAttribute("aria-label", filter.placeholder);
      filter.addEventListener("input", () => {
        const wanted = filter.value.toLowerCase();
        for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
      });
      table.parentElement.before(filter);
    }
  }
})();
