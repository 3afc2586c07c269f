// Two positions of a sinusoidal encoding: their rows, dot product and distance, for any width, base,
// position and separation. The numbers are those of code/measured/positions.py, computed in the page.
(() => {
  "use strict";

  const { h, svg, number, scale, ticks } = Explorer;

  // ---- The numbers, as measured.positions computes them ----

  const SEPARATIONS = 100; // 0 … 99, as in the chapter
  const STARTS = 100; // places at which the same pair is tried

  // Rows `from`, `from` + 1, …: sines and cosines in turn. Columns 2i and 2i + 1 share the angle of pair i.
  function encoding(from, count, depth, base) {
    const divisors = Array.from({ length: depth }, (_, column) => base ** ((2 * Math.floor(column / 2)) / depth));
    return Array.from({ length: count }, (_, i) => {
      const row = new Float64Array(depth);
      for (let column = 0; column < depth; column += 1) {
        const angle = (from + i) / divisors[column];
        row[column] = column % 2 ? Math.cos(angle) : Math.sin(angle);
      }
      return row;
    });
  }

  // Where each column of the halves layout comes from: interleaved[order[j]] is its column j.
  const halvesOrder = (depth) => {
    const columns = Array.from({ length: depth }, (_, column) => column);
    return [...columns.filter((column) => column % 2 === 0), ...columns.filter((column) => column % 2)];
  };

  function dot(a, b) {
    let total = 0;
    for (let i = 0; i < a.length; i += 1) total += a[i] * b[i];
    return total;
  }

  // Differences first, as in the package: expanding the square loses half the digits of a short distance.
  function distance(a, b) {
    let total = 0;
    for (let i = 0; i < a.length; i += 1) total += (a[i] - b[i]) ** 2;
    return Math.sqrt(total);
  }

  // The first k with profile[k] > profile[k - 1], or null.
  const firstRise = (profile) => {
    const found = profile.findIndex((value, k) => k > 0 && value > profile[k - 1]);
    return found < 0 ? null : found;
  };

  // The same pair at other starts needs many rows, which only the width and the base can change.
  let early = { rows: [] };
  function earlyRows(depth, base) {
    if (early.depth !== depth || early.base !== base) {
      early = { depth, base, rows: encoding(0, STARTS + SEPARATIONS, depth, base) };
    }
    return early.rows;
  }

  function measure({ depth, base, position, separation, layout }) {
    const order = layout === "halves" ? halvesOrder(depth) : null;
    const laidOut = (row) => (order ? row.map((_, column) => row[order[column]]) : row);
    const rows = encoding(position, SEPARATIONS, depth, base).map(laidOut);
    const dots = rows.map((other) => dot(rows[0], other));
    const distances = rows.map((other) => distance(rows[0], other));
    const starts = earlyRows(depth, base);
    const moved = Array.from({ length: STARTS }, (_, start) => dot(starts[start], starts[start + separation]));
    return {
      row: rows[0],
      other: rows[separation],
      products: rows[0].map((value, column) => value * rows[separation][column]),
      norm: Math.sqrt(dots[0]),
      expectedNorm: Math.sqrt(depth / 2),
      dots,
      distances,
      dot: dots[separation],
      distance: distances[separation],
      firstRise: firstRise(dots),
      firstFall: firstRise(distances.map((value) => -value)),
      moved: Math.max(...moved) - Math.min(...moved),
    };
  }

  // ---- What is seen ----

  const grouped = (value) => String(value).replace(/\B(?=(\d{3})+$)/g, ",");
  const RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹";

  // A small number in words' size: 0.0123, 3 × 10⁻¹⁴, 0.
  function small(value) {
    if (value === 0 || value >= 1e-3) return number(value, 4);
    const [mantissa, exponent] = value.toExponential(0).split("e-");
    return `${mantissa} × 10⁻${[...exponent].map((digit) => RAISED[digit]).join("")}`;
  }

  class Positions extends Explorer {
    static heading = "Two positions, column by column";

    build() {
      this.state = { depth: 100, base: 10000, position: 10, separation: 30, layout: "interleaved" };
      this.append(
        this.controls(
          this.typed({ name: "depth", label: "Columns d", min: 2, max: 512 }),
          this.typed({ name: "base", label: "Base", min: 10, max: 1e6, logarithmic: true }),
          this.typed({ name: "position", label: "Position p", min: 0, max: 999 }),
          this.typed({ name: "separation", label: "Separation k", min: 0, max: SEPARATIONS - 1 }),
          this.choice({
            name: "layout",
            legend: "Layout of the columns",
            options: [
              ["interleaved", "sines and cosines in turn"],
              ["halves", "sines first, then cosines"],
            ],
            read: () => this.state.layout,
            write: (layout) => (this.state.layout = layout),
          })
        ),
        this.picture({
          height: 246,
          kind: "explorer-strips",
          draw: (picture) => this.drawStrips(picture),
          describe: () => {
            const { depth, position, separation, layout } = this.state;
            const placed = layout === "halves" ? "all sines left of all cosines" : "sines and cosines in turn";
            return `Bars for the ${depth} columns of rows ${position} and ${position + separation}, ${placed}, and for their products.`;
          },
        }),
        h(
          "div",
          { class: "explorer-pair" },
          this.profile("dot product", "dots", "firstRise", "first rise"),
          this.profile("distance", "distances", "firstFall", "first fall")
        ),
        (this.numbers = h("dl", { class: "explorer-numbers" })),
        h("div", { class: "explorer-controls" }, this.resetButton())
      );
    }

    // A range for the hand and a field for the exact number, bound to one part of the state.
    typed({ name, label, min, max, logarithmic = false }) {
      const write = (value) => (this.state[name] = Math.min(max, Math.max(min, Math.round(value))));
      const [from, to] = logarithmic ? [Math.log10, (value) => 10 ** value] : [Number, Number];
      const made = this.slider({
        name,
        label,
        min: from(min),
        max: from(max),
        step: logarithmic ? 0.05 : 1, // by less, a step from 10 would round to 10 again
        read: () => from(this.state[name]),
        write: (value) => write(to(value)),
        show: () => grouped(this.state[name]),
      });
      const field = h("input", { type: "number", min, max, step: 1, inputmode: "numeric" });
      field.dataset.name = `${name}-exact`;
      field.setAttribute("aria-label", `${label}, exact`);
      field.addEventListener("input", () => {
        const value = field.valueAsNumber;
        if (!(value >= min && value <= max)) return; // half typed
        write(value);
        this.update();
      });
      field.addEventListener("change", () => {
        if (Number.isFinite(field.valueAsNumber)) write(field.valueAsNumber);
        this.update();
      });
      this.bind(() => {
        if (field.valueAsNumber !== this.state[name]) field.value = this.state[name];
      });
      made.querySelector("output").replaceWith(field);
      return made;
    }

    draw() {
      this.measured = measure(this.state);
      const { depth, base, position, separation } = this.state;
      const { dot, norm, distance, firstRise, firstFall, moved, expectedNorm } = this.measured;
      const share = dot / (norm * norm);
      this.numbers.replaceChildren(
        ...[
          ["length of row p", number(norm, 4), norm, "norm"],
          ["√(d/2)", number(expectedNorm, 4), expectedNorm, "expectedNorm"],
          ["dot product", number(dot, 4), dot, "dot"],
          ["share of the diagonal", `${number(100 * share, 1)} %`, share, "share"],
          ["distance", number(distance, 4), distance, "distance"],
          ["first rise at k", firstRise === null ? "none to 99" : firstRise, firstRise, "firstRise"],
          ["change if both move", small(moved), moved, "moved"],
        ].map(([term, shown, value, name]) =>
          h("div", {}, h("dt", {}, term), h("dd", { "data-name": name, "data-value": value ?? "none" }, shown))
        )
      );
      const fixed = moved < 1e-9;
      const rises =
        firstRise === null
          ? "The dot product falls all the way to separation 99."
          : `The dot product first rises at separation ${firstRise}: it is not monotone${firstFall === null ? "" : ", and neither is the distance"}.`;
      return (
        `Rows ${position} and ${position + separation}, with ${depth} columns and base ${grouped(base)}: dot product ${number(dot, 3)}, ` +
        `distance ${number(distance, 3)}. ${rises} ` +
        (fixed
          ? `Moving both positions together, to any start from 0 to ${STARTS - 1}, changes nothing but rounding.`
          : `Moving both positions together, to any start from 0 to ${STARTS - 1}, changes the dot product by up to ${small(moved)}: the last of an odd number of columns is a sine without its cosine.`)
      );
    }

    drawStrips({ width, add }) {
      const { depth, position, separation, layout } = this.state;
      const { row, other, products, dot } = this.measured;
      const [left, right] = [2, width - 2];
      const x = scale([0, depth], [left, right]);
      const step = (right - left) / depth;
      const inset = step > 5 ? 0.12 * step : 0;
      const strips = [
        [`row ${position}`, row],
        [`row ${position + separation}`, other],
        [`their product, which sums to ${number(dot, 3)}`, products],
      ];
      strips.forEach(([name, values], i) => {
        const middle = 40 + 72 * i;
        const bars = { positive: "", negative: "" };
        values.forEach((value, column) => {
          const [start, end] = [x(column) + inset, x(column + 1) - inset];
          bars[value < 0 ? "negative" : "positive"] +=
            `M${start.toFixed(2)} ${middle}V${(middle - 22 * value).toFixed(2)}H${end.toFixed(2)}V${middle}Z`;
        });
        add(
          svg("text", { x: left, y: middle - 27 }, name),
          svg("line", { class: "explorer-grid", x1: left, x2: right, y1: middle, y2: middle }),
          svg("path", { class: "explorer-positive", d: bars.positive }),
          svg("path", { class: "explorer-negative", d: bars.negative })
        );
      });
      const bottom = 40 + 72 * 2 + 26;
      const half = layout === "halves" ? Math.ceil(depth / 2) : null;
      if (half !== null) {
        add(svg("line", { class: "explorer-divide", x1: x(half), x2: x(half), y1: 18, y2: bottom }));
      }
      for (const mark of ticks([0, depth - 1], Math.max(2, Math.round(width / 90)))) {
        if (!Number.isInteger(mark)) continue;
        const anchor = x(mark + 0.5) < 12 ? "start" : "middle";
        add(
          svg("text", { class: "explorer-soft", x: x(mark + 0.5), y: bottom + 14, "text-anchor": anchor }, String(mark))
        );
      }
      const caption = half === null ? "column" : `column: sines to ${half - 1}, cosines from ${half}`;
      add(svg("text", { class: "explorer-soft", x: width / 2, y: bottom + 32, "text-anchor": "middle" }, caption));
    }

    // A curve over all separations; a press or a drag on it chooses one.
    profile(label, key, turn, turning) {
      let drawn = null;
      const element = this.plot({
        x: { domain: [0, SEPARATIONS - 1], label: "separation k", marks: [0, 20, 40, 60, 80, 99] },
        y: () => {
          const values = this.measured[key];
          const domain = [Math.min(0, ...values), 1.06 * Math.max(...values)];
          return { domain, marks: ticks(domain, 5), label };
        },
        height: 210,
        kind: "explorer-pick",
        draw: (picture) => {
          drawn = picture;
          const { x, y, box, add } = picture;
          const values = this.measured[key];
          const { separation } = this.state;
          const line = values.map((value, k) => `${k ? "L" : "M"}${x(k).toFixed(2)} ${y(value).toFixed(2)}`).join("");
          add(
            svg("line", {
              class: "explorer-chosen",
              x1: x(separation),
              x2: x(separation),
              y1: box.top,
              y2: box.bottom,
            }),
            svg("path", { class: "explorer-curve", d: line })
          );
          add(svg("circle", { class: "explorer-point", cx: x(separation), cy: y(values[separation]), r: 5 }));
          const at = this.measured[turn];
          if (at !== null) {
            const [left, top] = [x(at), y(values[at])];
            const near = left > box.right - 90;
            const up = key === "dots" ? -12 : 20;
            add(
              svg("path", {
                class: "explorer-turn",
                d: `M${left} ${top - 7}L${left + 7} ${top}L${left} ${top + 7}L${left - 7} ${top}Z`,
              }),
              svg(
                "text",
                {
                  class: "explorer-note",
                  x: left + (near ? -6 : 6),
                  y: top + up,
                  "text-anchor": near ? "end" : "start",
                },
                `${turning}, k = ${at}`
              )
            );
          }
        },
        describe: () => {
          const { separation } = this.state;
          const at = this.measured[turn];
          const turned = at === null ? `no ${turning}` : `${turning} at ${at}`;
          return `Line chart of the ${label} against separations 0 to 99: ${turned}; at ${separation} it is ${number(this.measured[key][separation], 3)}.`;
        },
      });
      this.grab(element, (event) => {
        const at = event.clientX - element.getBoundingClientRect().left;
        const { left, right } = drawn.box;
        const separation = Math.round(((at - left) / (right - left)) * (SEPARATIONS - 1));
        this.state.separation = Math.min(SEPARATIONS - 1, Math.max(0, separation));
        this.update();
      });
      return element;
    }

    // Everything at full precision: the state and what is measured in it.
    get values() {
      const { row, other, products, ...rest } = this.measured;
      return { ...this.state, ...rest, row: [...row], other: [...other], products: [...products] };
    }
  }

  Explorer.mount("positions", "positions-explorer", Positions);
})();
