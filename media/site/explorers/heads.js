// The heads explorer: where each head of the date model looks while it writes one character. The maps
// come with the page, bit for bit, as base64 of little-endian float32 (see measured.maps); means over
// heads are taken here.
"use strict";

(() => {
  const { h, svg, output, number } = Explorer;
  const FAINT = 0.002; // a weight that nobody would see in a map
  const NAMED = 4; // characters that are listed

  // A div.attention-map -> weights[head][character written][character of the text].
  function read({ dataset }) {
    const [text, written] = [[...dataset.text], [...dataset.written]];
    const bytes = Uint8Array.from(atob(dataset.weights), (sign) => sign.charCodeAt(0));
    const heads = Number(dataset.heads);
    if (bytes.length !== 4 * heads * written.length * text.length) {
      throw new Error(`the map of “${dataset.text}” has ${bytes.length} bytes, not those of ${heads} heads`);
    }
    const view = new DataView(bytes.buffer);
    const at = (head, row, place) => view.getFloat32(4 * ((head * written.length + row) * text.length + place), true);
    const weights = Array.from({ length: heads }, (_, head) =>
      written.map((_, row) => text.map((_, place) => at(head, row, place)))
    );
    return { text, written, language: dataset.lang, weights, mean: mean(weights) };
  }

  const mean = (maps) =>
    maps[0].map((row, i) => row.map((_, place) => maps.reduce((sum, map) => sum + map[i][place], 0) / maps.length));

  const visible = (sign) => (sign === " " ? "␣" : sign);
  const named = (sign) => (sign === " " ? "a space" : `“${sign}”`);
  const largest = (row) => row.indexOf(Math.max(...row));

  const ORDINAL = ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"];

  // The word of which a character is part, or null for a space or a lone sign.
  function wordAt(text, place) {
    const isLetter = (sign) => sign !== undefined && /[\p{L}\p{N}]/u.test(sign);
    let [from, to] = [place, place];
    if (!isLetter(text[place])) return null;
    while (isLetter(text[from - 1])) from -= 1;
    while (isLetter(text[to + 1])) to += 1;
    return to > from ? text.slice(from, to + 1).join("") : null;
  }

  class Heads extends Explorer {
    static heading = "Where each head looks";

    build(source) {
      this.maps = [...source.querySelectorAll(".attention-map")].map(read);
      this.state = { date: 0, head: null, row: 5 }; // the month, whose digits no text holds
      this.preview = null; // the row under the mouse, which counts while it is there
      const languages = new Intl.DisplayNames("en", { type: "language" });
      const heads = this.maps[0].weights.map((_, head) => [head, `Head ${head + 1}`]);
      this.append(
        this.controls(
          this.choice({
            legend: "The text that was given",
            kind: "heads-dates",
            name: "date",
            options: this.maps.map(({ text, language }, date) => [
              date,
              h("span", {}, h("span", { lang: language }, text.join("")), h("small", {}, languages.of(language))),
            ]),
            read: () => this.state.date,
            write: (date) => (this.state.date = date),
          }),
          this.choice({
            legend: "Whose weights",
            kind: "heads-views",
            name: "head",
            options: [[null, "Mean"], ...heads].map(([head, label]) => [head, this.thumbnail(head, label)]),
            read: () => this.state.head,
            write: (head) => (this.state.head = head),
          }),
          this.written()
        ),
        this.looks(),
        this.map(),
        this.everything()
      );
    }

    get date() {
      return this.maps[this.state.date];
    }

    get row() {
      return this.preview ?? this.state.row;
    }

    mapOf(head) {
      return head === null ? this.date.mean : this.date.weights[head];
    }

    get weights() {
      return this.mapOf(this.state.head)[this.row];
    }

    // A head's whole map in little, and what it looks at most for the character that is written.
    thumbnail(head, label) {
      const picture = svg("svg", { class: "heads-thumbnail", "aria-hidden": "true", preserveAspectRatio: "none" });
      const most = h("small", {});
      let drawn = null;
      this.bind(() => {
        const map = this.mapOf(head);
        const place = largest(map[this.row]);
        most.textContent = `${visible(this.date.text[place])} ${number(map[this.row][place], 2)}`;
        if (drawn === map) return;
        drawn = map;
        picture.setAttribute("viewBox", `0 0 ${map[0].length} ${map.length}`);
        picture.replaceChildren(...cells(map, (place) => place, (row) => row, 1, 1)); // prettier-ignore
      });
      return h("span", {}, picture, h("span", {}, label), most);
    }

    // The ten characters of the answer, of which one is chosen.
    written() {
      const signs = this.date.written.map(() => h("span", {}));
      const choice = this.choice({
        legend: "The character that is written next",
        kind: "heads-written",
        name: "row",
        options: signs.map((sign, row) => [row, sign]),
        read: () => this.state.row,
        write: (row) => (this.state.row = row),
      });
      const labels = [...choice.querySelectorAll("label")];
      labels.forEach((label, row) => this.hover(label, () => row));
      this.bind(() => {
        this.date.written.forEach((sign, row) => {
          signs[row].textContent = sign;
          labels[row].querySelector("input").setAttribute("aria-label", `${sign}, the ${ORDINAL[row]}`);
          labels[row].classList.toggle("heads-shown", row === this.row);
        });
      });
      return choice;
    }

    // The mouse shows a row while it rests on a part; a click, a tap or a key chooses.
    hover(part, rowAt) {
      const look = (row) => {
        if (row === this.preview) return;
        this.preview = row;
        this.show();
      };
      part.addEventListener("pointermove", (event) => event.pointerType === "mouse" && look(rowAt(event)));
      part.addEventListener("pointerleave", () => look(null));
    }

    // The text, each character shaded by its weight, and the first few named.
    looks() {
      const line = h("p", { class: "heads-text", "aria-hidden": "true" });
      const list = h("ol", { class: "heads-most" });
      const sum = output({ class: "heads-sum" });
      this.bind(() => {
        const { text } = this.date;
        const weights = this.weights;
        // In groups that end with a space, so that no word is broken where the line is.
        const groups = [h("span")];
        text.forEach((sign, place) => {
          const bar = weights[place] < 0.01 ? null : h("i");
          const made = h("b", { "data-value": weights[place] }, bar, visible(sign));
          made.style.setProperty("--weight", weights[place]);
          groups.at(-1).append(made);
          if (sign === " ") groups.push(h("span"));
        });
        line.replaceChildren(...groups);
        const order = text.map((_, place) => place).sort((a, b) => weights[b] - weights[a] || a - b);
        list.replaceChildren(
          ...order.slice(0, NAMED).map((place) => {
            const word = wordAt(text, place);
            const where = `character ${place + 1}${word ? ` in “${word}”` : ""}`;
            const value = output({ "data-value": weights[place], "data-place": place });
            value.value = number(weights[place]);
            return h("li", {}, h("b", {}, named(text[place])), h("span", {}, where), value);
          })
        );
        const total = weights.reduce((a, b) => a + b, 0);
        sum.value = number(total);
        sum.dataset.value = total;
        sum.dataset.count = text.length;
      });
      return h(
        "div",
        { class: "heads-looks" },
        line,
        list,
        h("p", { class: "heads-total" }, "sum of the row, over all characters of the text ", sum)
      );
    }

    map() {
      const side = 26;
      const above = 22;
      const tall = (width) => (width < 480 ? 24 : 20);
      const picture = this.picture({
        kind: "heads-map",
        height: (width) => above + tall(width) * this.date.written.length,
        describe: () => `Heat map: rows are the characters of ${this.date.written.join("")}, columns those of ${this.date.text.join("")}. The row that is shown is described below.`,
        draw: ({ add, width }) => {
          const { text, written } = this.date;
          const high = tall(width);
          const wide = (width - side) / text.length;
          const x = (place) => side + place * wide;
          const y = (row) => above + row * high;
          const letter = Math.min(13, wide * 1.5);
          add(svg("rect", { class: "heads-field", x: side, y: above, width: width - side, height: high * written.length }));
          add(...cells(this.mapOf(this.state.head), x, y, wide, high));
          text.forEach((sign, place) => {
            const label = svg("text", { x: x(place) + wide / 2, y: above - 7, "text-anchor": "middle" }, visible(sign));
            label.style.fontSize = `${letter}px`;
            add(label);
          });
          written.forEach((sign, row) => {
            const kind = row === this.row ? "heads-here" : null;
            add(svg("text", { class: kind, x: side / 2 - 3, y: y(row) + high / 2, dy: "0.35em", "text-anchor": "middle" }, sign));
          });
          add(svg("rect", { class: "heads-row", x: side, y: y(this.row), width: width - side, height: high }));
        },
      });
      const rowAt = (event) => {
        const { top, width } = picture.getBoundingClientRect();
        const row = Math.floor((event.clientY - top - above) / tall(width));
        return row >= 0 && row < this.date.written.length ? row : null;
      };
      this.hover(picture, rowAt);
      picture.addEventListener("click", (event) => {
        const row = rowAt(event);
        if (row === null) return;
        this.state.row = row;
        this.update();
      });
      const scale = h("span", { class: "heads-scale", "aria-hidden": "true" }, "0", h("i", {}), "1");
      return h("div", { class: "heads-frame" }, picture, h("p", { class: "heads-key" }, "Each row is a character that is written, each column one of the text. Weight ", scale));
    }

    // Every weight of the row as a number, for those who want all.
    everything() {
      const body = h("tbody");
      this.bind(() => {
        const weights = this.weights;
        body.replaceChildren(
          ...this.date.text.map((sign, place) =>
            h("tr", {}, h("th", { scope: "row" }, `${place + 1} ${visible(sign)}`), h("td", { "data-value": weights[place] }, number(weights[place], 6)))
          )
        );
      });
      const head = ["character", "weight"].map((name) => h("th", { scope: "col" }, name));
      return h("details", { class: "heads-all" }, h("summary", {}, "All weights of this row"), h("table", {}, h("thead", {}, h("tr", {}, head)), body));
    }

    draw() {
      const { text, written } = this.date;
      const weights = this.weights;
      const place = largest(weights);
      const word = wordAt(text, place);
      const who = this.state.head === null ? "the heads look on average" : `head ${this.state.head + 1} looks`;
      const what = `${named(text[place])}, character ${place + 1}${word ? ` in “${word}”` : ""}`;
      return `Writing the ${ORDINAL[this.row]} character of ${written.join("")}, “${written[this.row]}”, ${who} most at ${what}: ${number(weights[place])}.`;
    }

    get values() {
      const { text, written, language } = this.date;
      const weights = this.weights;
      return {
        text: text.join(""),
        written: written.join(""),
        language,
        date: this.state.date,
        head: this.state.head,
        row: this.row,
        weights: [...weights],
        sum: weights.reduce((a, b) => a + b, 0),
        most: largest(weights),
      };
    }
  }

  // A map as squares, as strong as their weights.
  function cells(map, x, y, width, height) {
    return map.flatMap((row, i) =>
      row.flatMap((weight, place) => {
        if (weight < FAINT) return [];
        const opacity = Number(weight.toFixed(3));
        return [svg("rect", { class: "heads-cell", x: x(place), y: y(i), width, height, "fill-opacity": opacity })];
      })
    );
  }

  Explorer.mount("heads", "heads-explorer", Heads);
})();
