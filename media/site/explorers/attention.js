// The attention explorer: one query, up to five keys. Scores become weights and the weights an average of
// two-dimensional values, while keys are masked and the scores divided or not. The formulas are those of
// measured.attention and measured.masks, in double precision.
"use strict";

(() => {
  const { h, svg, output, number } = Explorer;
  const TRAIL = 400; // outputs that stay in sight as dots

  const ITEMS = ["item 1", "item 2", "item 3"];
  const CORNERS = [[2, 0], [0, 2], [2, 2]]; // prettier-ignore
  const BY_HAND = ITEMS.map(() => [1, 2, 3].map(Math.log));

  // What each example starts from: scores[query][key], which can be set from -reach to reach. The
  // sentence's numbers are made up.
  const EXAMPLES = {
    hand: { name: "By hand", tokens: ITEMS, scores: BY_HAND, values: CORNERS, divide: false, query: 2, reach: 5 },
    without: { name: "Third left out", tokens: ITEMS, scores: BY_HAND, values: CORNERS, divide: false, query: 2, reach: 5, hidden: [2] },
    sentence: {
      name: "A sentence",
      tokens: ["fish", "swam", "near", "the", "bank"],
      scores: [[6, 4, 0, -2, 1], [8, 3, 1, -3, 2], [1, 5, 2, -1, 7], [-2, -1, 1, 3, 8], [4, 7, 2, -1, 5]], // prettier-ignore
      values: [[1.8, 0.2], [2, 1.6], [0.9, 2], [0.1, 0.3], [0.8, 1.1]], // prettier-ignore
      divide: true,
      query: 4,
      reach: 20,
    },
  };
  const MOST = Math.max(...Object.values(EXAMPLES).map(({ tokens }) => tokens.length));

  function start(example) {
    const { tokens, scores, divide, query, hidden = [] } = EXAMPLES[example];
    return {
      example,
      scores: scores.map((row) => [...row]),
      attend: tokens.map((_, key) => !hidden.includes(key)),
      query,
      causal: false,
      divide,
      power: 4, // d_k is two to this
    };
  }

  // ---- The mathematics ----

  function softmax(scores) {
    const largest = Math.max(...scores);
    const powers = scores.map((score) => Math.exp(score - largest));
    const sum = powers.reduce((a, b) => a + b, 0);
    return powers.map((power) => power / sum);
  }

  // What one query gets; `refused` says why it gets nothing.
  function attend({ scores, attend, query, causal, divide, power }, values) {
    const mask = attend.map((shown, key) => shown && !(causal && key > query));
    const divisor = divide ? Math.sqrt(2 ** power) : 1;
    const scaled = scores[query].map((score) => score / divisor);
    const common = { mask, divisor, scaled, largestEntropy: null, weights: null, entropy: null, output: null };
    if (!mask.includes(true)) {
      return { ...common, refused: `no key to attend to for (batch, head, query) [0, 0, ${query}]` };
    }
    const weights = softmax(scaled.map((score, key) => (mask[key] ? score : -Infinity)));
    return {
      ...common,
      refused: null,
      weights,
      entropy: weights.reduce((sum, weight) => sum - (weight > 0 ? weight * Math.log(weight) : 0), 0),
      largestEntropy: Math.log(mask.filter(Boolean).length),
      output: [0, 1].map((axis) => weights.reduce((sum, weight, key) => sum + weight * values[key][axis], 0)),
    };
  }

  // The score of a key at which its weight is `weight`, the others staying as they are.
  function scoreFor(weight, key, reach, { mask, scaled, divisor }) {
    const others = scaled.filter((_, other) => mask[other] && other !== key);
    const largest = Math.max(...others);
    const sum = others.reduce((total, score) => total + Math.exp(score - largest), 0);
    const score = divisor * (Math.log(weight / (1 - weight)) + largest + Math.log(sum));
    return Math.min(reach, Math.max(-reach, score));
  }

  // The corners of the convex hull, in order around it (Andrew's monotone chain).
  function hull(points) {
    const sorted = [...points].sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    const side = (list) => {
      const chain = [];
      for (const [x, y] of list) {
        while (chain.length > 1) {
          const [[ax, ay], [bx, by]] = chain.slice(-2);
          if ((bx - ax) * (y - ay) - (by - ay) * (x - ax) > 0) break;
          chain.pop();
        }
        chain.push([x, y]);
      }
      return chain.slice(0, -1);
    };
    return sorted.length < 2 ? sorted : [...side(sorted), ...side(sorted.reverse())];
  }

  // ---- What is seen ----

  class Attention extends Explorer {
    static heading = "One query, its keys and its output";

    build() {
      this.state = start("hand");
      this.trail = [];
      this.append(
        this.controls(
          this.choice({
            legend: "Start from",
            name: "example",
            options: Object.entries(EXAMPLES).map(([key, { name }]) => [key, name]),
            read: () => this.state.example,
            write: (example) => this.load(example),
          }),
          ...this.queries(),
          this.toggle({
            label: "Causal: hide the keys after the query",
            name: "causal",
            read: () => this.state.causal,
            write: (causal) => (this.state.causal = causal),
          })
        ),
        this.keys(),
        this.controls(
          this.toggle({
            label: h("span", {}, "Divide by √d", h("sub", {}, "k")),
            name: "divide",
            read: () => this.state.divide,
            write: (divide) => (this.state.divide = divide),
          }),
          this.slider({
            label: h("span", {}, "Width d", h("sub", {}, "k")),
            name: "width",
            min: 0,
            max: 10,
            read: () => this.state.power,
            write: (power) => (this.state.power = power),
            show: (power) => String(2 ** power),
            enabled: () => this.state.divide,
          }),
          this.resetButton()
        ),
        this.result()
      );
    }

    get example() {
      return EXAMPLES[this.state.example];
    }

    load(example) {
      this.trail = [];
      this.state = start(example);
    }

    reset() {
      this.load(this.state.example);
      this.update();
    }

    // Each list of tokens has its own choice of the query; the one of the example is shown.
    queries() {
      return [ITEMS, EXAMPLES.sentence.tokens].map((tokens) => {
        const choice = this.choice({
          legend: "The query is that of",
          name: "query",
          options: tokens.map((token, query) => [query, token]),
          read: () => (this.example.tokens === tokens ? this.state.query : null),
          write: (query) => {
            this.trail = [];
            this.state.query = query;
          },
        });
        this.bind(() => (choice.hidden = this.example.tokens !== tokens));
        return choice;
      });
    }

    keys() {
      const head = ["key", "score", "weight"].map((name) => h("span", {}, name));
      const rows = Array.from({ length: MOST }, (_, key) => this.key(key));
      this.total = h("span");
      this.sum = output({ class: "attention-sum" });
      return h(
        "div",
        { class: "attention-keys" },
        h("div", { class: "attention-head", "aria-hidden": "true" }, head),
        rows,
        h("p", { class: "attention-total" }, this.total, this.sum)
      );
    }

    // One key: whether it may be attended to, its score, and its weight as a bar that can be drawn out.
    key(key) {
      const name = h("span", { class: "attention-token" });
      const note = h("span", { class: "attention-note" });
      const box = h("input", { type: "checkbox", "data-name": "attend", "data-key": key });
      box.addEventListener("change", () => {
        this.state.attend[key] = box.checked;
        this.update();
      });
      const hearing = h("span", { class: "explorer-hidden" }, "attend to ");
      const score = this.slider({
        label: "",
        name: "score",
        min: () => -this.example.reach,
        max: () => this.example.reach,
        step: 0.1,
        read: () => this.state.scores[this.state.query][key] ?? 0,
        write: (value) => (this.state.scores[this.state.query][key] = value),
        show: (value) => number(value, 2),
      });
      const bar = h("span", { class: "attention-fill" });
      const track = h("span", { class: "attention-track", "aria-hidden": "true", "data-key": key }, bar);
      const weight = output({ class: "attention-weight" });
      this.drag(track, key);
      const row = h(
        "div",
        { class: "attention-key", role: "group" },
        h("label", { class: "attention-attend" }, box, h("span", {}, hearing, name, note)),
        score,
        h("span", { class: "attention-share" }, track, weight)
      );
      this.bind(() => {
        const { tokens } = this.example;
        row.hidden = key >= tokens.length;
        if (row.hidden) return;
        const { mask, weights } = this.values;
        const later = this.state.causal && key > this.state.query;
        name.textContent = tokens[key];
        note.textContent = later ? " after the query" : "";
        row.setAttribute("aria-label", `Key “${tokens[key]}”`);
        score.querySelector("label").textContent = `Score of “${tokens[key]}”`;
        box.checked = mask[key];
        box.disabled = later;
        row.classList.toggle("attention-hidden", !mask[key]);
        bar.style.width = `${100 * (weights ? weights[key] : 0)}%`;
        weight.value = weights ? number(weights[key]) : "–";
        weight.dataset.value = weights ? weights[key] : "";
      });
      return row;
    }

    // Drawing out a bar sets the score that gives this weight. The range beside it does the same by keys.
    drag(track, key) {
      this.grab(track, (event) => {
        const now = this.values;
        if (!now.mask[key] || now.mask.filter(Boolean).length < 2) return;
        const { left, width } = track.getBoundingClientRect();
        const weight = Math.min(0.999, Math.max(0.001, (event.clientX - left) / width));
        this.state.scores[this.state.query][key] = scoreFor(weight, key, this.example.reach, now);
        this.update();
      });
    }

    result() {
      const plane = this.plot({
        kind: "attention-plane",
        equal: true,
        height: (width) => Math.min(width, 330),
        margin: { left: 30, bottom: 24, right: 8, top: 8 },
        x: () => ({ domain: [-0.2, 2.25] }),
        y: () => ({ domain: [-0.2, 2.25] }),
        describe: () => this.described(),
        draw: (picture) => this.drawPlane(picture),
      });
      const entropy = output({ class: "attention-entropy" });
      const most = h("span", { class: "attention-most" });
      const level = h("span", { class: "attention-fill" });
      const body = h("tbody");
      const foot = h("tfoot");
      const table = h(
        "table",
        {},
        h("thead", {}, h("tr", {}, ["key", "value", "weight × value"].map((name) => h("th", { scope: "col" }, name)))),
        body,
        foot
      );
      this.bind(() => {
        const { weights, entropy: nats, largestEntropy, output: mixed } = this.values;
        entropy.value = nats === null ? "–" : number(nats);
        entropy.dataset.value = nats ?? "";
        const keys = this.values.mask.filter(Boolean).length;
        most.textContent = nats === null ? "" : ` of at most log ${keys} = ${number(largestEntropy)} nats`;
        level.style.width = `${largestEntropy ? (100 * nats) / largestEntropy : 0}%`;
        const sum = weights && weights.reduce((a, b) => a + b, 0);
        this.total.textContent = weights ? "sum of the weights " : "refused: every key is hidden from the query";
        this.sum.value = weights ? number(sum) : "";
        this.sum.dataset.value = sum ?? "";
        const cells = (numbers) => numbers.map((text) => h("td", {}, text));
        body.replaceChildren(
          ...this.example.tokens.map((token, key) => {
            const value = this.example.values[key];
            const share = weights ? value.map((one) => weights[key] * one) : null;
            const shown = [`(${value.join(", ")})`, share ? pair(share) : "–"];
            return h("tr", {}, h("th", { scope: "row" }, token), cells(shown));
          })
        );
        const total = h("td", { class: "attention-output" }, mixed ? pair(mixed) : "none");
        if (mixed) total.dataset.value = JSON.stringify(mixed);
        foot.replaceChildren(h("tr", {}, h("th", { scope: "row", colspan: 2 }, "output, their sum"), total));
      });
      return h(
        "div",
        { class: "attention-result" },
        plane,
        h(
          "div",
          { class: "attention-numbers" },
          h("p", { class: "attention-uncertain" }, "entropy ", entropy, most),
          h("span", { class: "attention-track attention-level", "aria-hidden": "true" }, level),
          table
        )
      );
    }

    described() {
      const { output, refused } = this.values;
      const where = this.example.tokens.map((token, key) => `${token} at (${this.example.values[key].join(", ")})`).join(", ");
      return `The values in the plane: ${where}. ${refused ? "There is no output." : `The output, inside their convex hull, is at ${pair(output)}.`}`;
    }

    drawPlane({ add, x, y }) {
      const { mask, weights, output } = this.values;
      const { tokens, values } = this.example;
      const at = ([across, up]) => `${x(across)},${y(up)}`;
      const outline = (points, kind) => add(svg("polygon", { class: kind, points: hull(points).map(at).join(" ") }));
      if (mask.includes(false)) outline(values, "attention-all");
      outline(values.filter((_, key) => mask[key]), "attention-hull");
      for (const point of this.trail) add(svg("circle", { class: "attention-trail", cx: x(point[0]), cy: y(point[1]), r: 1.6 }));
      values.forEach((value, key) => {
        const [left, top] = [x(value[0]), y(value[1])];
        if (weights && mask[key]) {
          const thick = 0.5 + 7 * weights[key];
          add(svg("line", { class: "attention-pull", x1: left, y1: top, x2: x(output[0]), y2: y(output[1]), "stroke-width": thick }));
        }
        add(svg("rect", { class: mask[key] ? "attention-value" : "attention-value attention-masked", x: left - 5, y: top - 5, width: 10, height: 10 }));
        const high = value[1] >= 1;
        const inwards = value[0] > 1.5;
        add(svg("text", { x: left + (inwards ? 5 : -5), y: top + (high ? -10 : 19), "text-anchor": inwards ? "end" : "start" }, tokens[key]));
      });
      if (output) add(svg("circle", { class: "attention-point", cx: x(output[0]), cy: y(output[1]), r: 7 }));
    }

    draw() {
      const { mask, weights, entropy, largestEntropy, output, refused } = this.values;
      this.classList.toggle("attention-refused", Boolean(refused));
      if (refused) {
        const link = h("a", { href: "masking.html#sec-mask-blind" }, "No answer would be right");
        return [`Refused: ${refused}. Every key is hidden from the query. `, link, ", so there are no weights and no output."];
      }
      this.trail = [...this.trail, output].slice(-TRAIL);
      const largest = Math.max(...weights);
      const even = weights.every((weight, key) => !mask[key] || largest - weight < 1e-9);
      const keys = mask.filter(Boolean).length;
      const who = `“${this.example.tokens[weights.indexOf(largest)]}”`;
      const first =
        keys === 1 ? `Only ${who} can be attended to, so it gets everything.`
        : even ? `All ${keys} keys get the same weight, ${number(largest)}.`
        : `${who} gets the most, ${number(largest)}.`; // prettier-ignore
      const spread = keys > 1 ? ` The entropy is ${number(entropy)} nats of ${number(largestEntropy)}, as much as ${number(Math.exp(entropy), 1)} equal weights have.` : "";
      return `${first}${spread} The output is ${pair(output)}.`;
    }

    get values() {
      const { tokens, values } = this.example;
      const { query } = this.state;
      return { tokens, query, scores: [...this.state.scores[query]], values, ...attend(this.state, values) };
    }
  }

  const pair = (point, digits = 3) => `(${point.map((one) => number(one, digits)).join(", ")})`;

  Explorer.mount("attention", "attention-explorer", Attention);
})();
