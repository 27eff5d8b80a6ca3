"use strict";
// Where values stand and which color they have: the same rules as in the pictures, whose scale and colors come with the data.
function scaleOf({ spacing, linear, factor, low, high, ticks, bounds, colors, shades }) {
  const place = (value) => {
    if (spacing === "log") return Math.log10(value);
    if (spacing !== "symlog") return value;
    const size = Math.abs(value);
    return size <= linear ? value / linear : Math.sign(value) * (1 + Math.log10(size / linear) / Math.log10(factor));
  };
  const [bottom, top] = [place(low), place(high)];
  const position = (value) => Math.min(Math.max((place(value) - bottom) / (top - bottom), 0), 1);
  const classOf = (value) => bounds.filter(([bound]) => bound <= value).length;
  function shade(at) {
    const after = Math.max(1, shades.findIndex(([place]) => place >= at));
    const [[from, pale], [to, dark]] = [shades[after - 1], shades[after]];
    return to > from ? pale + ((dark - pale) * (at - from)) / (to - from) : dark;
  }
  const note = { log: "log scale", symlog: "symlog scale" }[spacing] ?? "";
  return { position, classOf, shade, ticks, bounds, colors, note };
}

// Which of so many labels are shown: at equal steps, the last included, and every second, fourth and so on of what comes in powers of two.
function labeled(count, room) {
  let step = 1;
  while (count > step * room) step *= 2;
  return (index) => (count - 1 - index) % step === 0;
}
