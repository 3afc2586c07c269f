// Word vectors plus positions, for any weights of the two: the words' principal components, and their
// Procrustes disparity from the layout of the words alone. The numbers are those of code/measured/layouts.py,
// computed in the page from the vectors of words.js.
(() => {
  "use strict";

  const { h, svg, number } = Explorer;

  // ---- The numbers, as code/measured computes them ----

  const DEPTH = 100; // columns of both, as in the chapter

  const sum = (values) => values.reduce((total, value) => total + value, 0);
  function dot(a, b) {
    let total = 0;
    for (let i = 0; i < a.length; i += 1) total += a[i] * b[i];
    return total;
  }
  const length = (vector) => Math.sqrt(dot(vector, vector));

  // measured.positions.positional_encoding: rows of DEPTH columns, sines and cosines in turn.
  const waves = (count) =>
    Array.from({ length: count }, (_, position) =>
      Float64Array.from({ length: DEPTH }, (_, column) => {
        const angle = position / 10000 ** ((2 * Math.floor(column / 2)) / DEPTH);
        return column % 2 ? Math.cos(angle) : Math.sin(angle);
      })
    );

  function centred(rows) {
    const made = rows.map((row) => Array.from(row));
    for (let column = 0; column < rows[0].length; column += 1) {
      let total = 0;
      for (const row of rows) total += row[column];
      for (const row of made) row[column] -= total / rows.length;
    }
    return made;
  }

  function turnColumns(matrix, p, q, c, s) {
    for (const row of matrix) {
      const first = row[p];
      const second = row[q];
      row[p] = c * first - s * second;
      row[q] = s * first + c * second;
    }
  }

  // Eigenvalues and eigenvectors (as columns) of a symmetric matrix, by Jacobi's rotations.
  function eigen(symmetric) {
    const size = symmetric.length;
    const a = symmetric.map((row) => [...row]);
    const vectors = a.map((_, i) => a.map((_, j) => Number(i === j)));
    const scale = Math.max(...a.flat().map(Math.abs));
    for (let sweep = 0; sweep < 60; sweep += 1) {
      let off = 0;
      for (let p = 0; p < size; p += 1) {
        for (let q = p + 1; q < size; q += 1) {
          off = Math.max(off, Math.abs(a[p][q]));
          if (Math.abs(a[p][q]) <= 1e-17 * scale) continue;
          const theta = (a[q][q] - a[p][p]) / (2 * a[p][q]);
          const t = (theta < 0 ? -1 : 1) / (Math.abs(theta) + Math.hypot(theta, 1));
          const c = 1 / Math.hypot(t, 1);
          const s = t * c;
          turnColumns(a, p, q, c, s);
          for (let k = 0; k < size; k += 1) {
            const first = a[p][k];
            const second = a[q][k];
            a[p][k] = c * first - s * second;
            a[q][k] = s * first + c * second;
          }
          turnColumns(vectors, p, q, c, s);
        }
      }
      if (off <= 1e-16 * scale) break;
    }
    return { values: a.map((row, i) => row[i]), vectors };
  }

  const products = (rows, others) => rows.map((a) => others.map((b) => dot(a, b)));

  // The two columns of coordinates along the directions of largest variance, from the centred rows' products: they
  // have the eigenvalues that the columns' products have, and are eleven by eleven instead of a hundred by a hundred.
  function components(gram) {
    const { values, vectors } = eigen(gram);
    const order = values.map((_, i) => i).sort((i, j) => values[j] - values[i]);
    const total = sum(values);
    return {
      columns: order.slice(0, 2).map((k) => vectors.map((row) => row[k] * Math.sqrt(values[k]))),
      shares: order.map((k) => Math.max(0, values[k]) / total), // of the variance, for every component
    };
  }

  const pairs = ([first, second]) => first.map((value, i) => [value, second[i]]);

  // measured.layouts.principal_components: rows -> layout, [x, y] for each. An axis points where its largest weight
  // is positive.
  function principalComponents(rows) {
    const points = centred(rows);
    const { columns, shares } = components(products(points, points));
    const signed = columns.map((scores) => {
      let largest = 0;
      for (let column = 0; column < points[0].length; column += 1) {
        let weight = 0;
        for (let i = 0; i < points.length; i += 1) weight += scores[i] * points[i][column];
        if (Math.abs(weight) > Math.abs(largest)) largest = weight;
      }
      return scores.map((score) => (largest < 0 ? -score : score));
    });
    return { layout: pairs(signed), shares };
  }

  const standardised = (layout) => {
    const points = centred(layout);
    const size = Math.sqrt(sum(points.flat().map((value) => value * value)));
    return points.map((point) => point.map((value) => value / size));
  };

  // measured.layouts.disparity, which is scipy.spatial.procrustes: both layouts are centred and brought to size 1,
  // the second is turned, mirrored and scaled to fit, and what is left are squared distances.
  function procrustes(reference, layout) {
    const [still, moving] = [standardised(reference), standardised(layout)];
    const product = (i, j) => sum(still.map((point, row) => point[i] * moving[row][j]));
    const [a, b, c, d] = [product(0, 0), product(0, 1), product(1, 0), product(1, 1)];
    // The best turn is the orthogonal part of [[a, b], [c, d]], the best scale the sum of its singular values.
    const sign = a * d < b * c ? -1 : 1;
    const [x, y] = [a + sign * d, b - sign * c];
    const scale = Math.hypot(x, y);
    const [cosine, sine] = scale ? [x / scale, y / scale] : [1, 0];
    const fitted = moving.map(([u, v]) => [scale * (cosine * u + sine * v), scale * sign * (cosine * v - sine * u)]);
    const squares = still.map((point, row) => sum(point.map((value, axis) => (value - fitted[row][axis]) ** 2)));
    return { still, fitted, disparity: sum(squares) };
  }

  // ---- One state, measured ----

  const { vectors, sentences, groups } = explorerWords;
  const WAVES = waves(11);
  const ORDERS = sentences.map((sentence) => sentence.split(" "));
  const MEANINGS = ORDERS.map((order) => order.map((word) => vectors[word]));
  const MEAN_LENGTH = sum(MEANINGS[0].map(length)) / MEANINGS[0].length;
  const PAIR = ["red", "wolf"];
  const LIMIT = 10; // from 1:10 to 10:1
  const CURVE = 161; // points of the curve over all ratios

  // Only the ratio counts for the picture; the quieter of the two keeps weight 1.
  const weightsFor = (ratio) => (ratio >= 1 ? [ratio, 1] : [1, 1 / ratio]);

  const mixture = (sentence, [meaning, position]) =>
    MEANINGS[sentence].map((vector, i) => vector.map((value, column) => meaning * value + position * WAVES[i][column]));

  const apart = (a, b) => length(a.map((value, i) => value - b[i]));

  // How many words have their nearest neighbour in their own group: measured.layouts.same_group_neighbours.
  function ownNeighbours(layout, order) {
    return order.filter((word, i) => {
      const away = layout.map((point, j) => (i === j ? Infinity : apart(layout[i], point)));
      return groups[order[away.indexOf(Math.min(...away))]] === groups[word];
    }).length;
  }

  const made = new Map();
  function alone(sentence) {
    if (!made.has(sentence)) made.set(sentence, principalComponents(MEANINGS[sentence]).layout);
    return made.get(sentence);
  }

  // The disparity at every ratio. The products of a mixture are sums of those of its two parts, so no ratio needs
  // the hundred columns again; a mirrored axis leaves a disparity as it is.
  const ratioAt = (i) => LIMIT ** ((2 * i) / (CURVE - 1) - 1);
  function curve(sentence) {
    const [meanings, places] = [centred(MEANINGS[sentence]), centred(WAVES)];
    const [both, mixed, other] = [products(meanings, meanings), products(meanings, places), products(places, places)];
    return (i) => {
      const [e, p] = weightsFor(ratioAt(i));
      const gram = both.map((row, a) =>
        row.map((value, b) => e * e * value + e * p * (mixed[a][b] + mixed[b][a]) + p * p * other[a][b])
      );
      return procrustes(alone(sentence), pairs(components(gram).columns)).disparity;
    };
  }

  function measure({ sentence, ratio }) {
    const weights = weightsFor(ratio);
    const order = ORDERS[sentence];
    const rows = mixture(sentence, weights);
    const { layout, shares } = principalComponents(rows);
    const [first, second] = PAIR.map((word) => order.indexOf(word));
    const meaningAlone = weights[0] * apart(MEANINGS[sentence][first], MEANINGS[sentence][second]);
    return {
      order,
      weights,
      layout,
      shares,
      alone: alone(sentence),
      ...procrustes(alone(sentence), layout),
      lengthRatio: (ratio * MEAN_LENGTH) / Math.sqrt(DEPTH / 2),
      neighbours: ownNeighbours(layout, order),
      places: Math.abs(first - second),
      pairMixed: apart(rows[first], rows[second]),
      pairAlone: meaningAlone,
    };
  }

  // ---- What is seen ----

  const GROUPS = [...new Set(Object.values(groups))].sort(); // alphabetical, as in the figures

  // The mark of each group: as in the figures, a shape of its own and not a colour alone.
  const SHAPES = {
    animals: (x, y, r) => `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0Z`,
    colours: (x, y, r) => `M${x - r} ${y - r}h${2 * r}v${2 * r}h${-2 * r}Z`,
    people: (x, y, r) => `M${x} ${y - 1.2 * r}l${1.15 * r} ${2.1 * r}h${-2.3 * r}Z`,
    sports: (x, y, r) =>
      `M${x} ${y - 1.35 * r}l${1.35 * r} ${1.35 * r}l${-1.35 * r} ${1.35 * r}l${-1.35 * r} ${-1.35 * r}Z`,
  };
  const mark = (word, x, y, r, kind) =>
    svg("path", { class: `explorer-mark ${kind}`, "data-group": groups[word], d: SHAPES[groups[word]](x, y, r) });

  const short = (value) => String(Number(value.toPrecision(3)));
  const proportion = ([meaning, position]) => `${short(meaning)} : ${short(position)}`;

  class Weight extends Explorer {
    static heading = "Meaning against position";

    build() {
      this.state = { sentence: 1, ratio: 1 };
      const starts = [
        [0.1, "1 : 10"],
        [1, "1 : 1"],
        [10, "10 : 1"],
      ];
      // Where GloVe's vectors would stand if they were as long as those that a fresh layer gives, times √d.
      const scaled = (ratio) => (ratio * Math.sqrt(DEPTH / 2)) / MEAN_LENGTH;
      const fresh = [
        [scaled(0.05 * Math.sqrt((2 * DEPTH) / 3)), "Keras’s default × √d"],
        [scaled(Math.SQRT2), "variance 1/d × √d"],
      ];
      this.append(
        this.controls(
          this.choice({
            name: "sentence",
            legend: "Sentence",
            options: [
              [0, "first: group by group"],
              [1, "second: mixed"],
            ],
            read: () => this.state.sentence,
            write: (sentence) => (this.state.sentence = sentence),
          }),
          this.slider({
            name: "ratio",
            label: "Meaning : position",
            min: -1,
            max: 1,
            step: 0.005,
            read: () => Math.log10(this.state.ratio),
            write: (power) => (this.state.ratio = 10 ** power),
            show: () => proportion(weightsFor(this.state.ratio)),
          }),
          this.choice({
            name: "preset",
            legend: "Weights of the figures, and the lengths that √d gives",
            options: [...starts, ...fresh],
            read: () => this.state.ratio,
            write: (ratio) => (this.state.ratio = ratio),
          })
        ),
        h(
          "div",
          { class: "explorer-pair" },
          h(
            "figure",
            {},
            this.mixturePicture(),
            h(
              "figcaption",
              {},
              "Word vectors plus positions, in the plane where they spread most. The small number is the position; the line follows the sentence."
            )
          ),
          h(
            "figure",
            {},
            this.overlayPicture(),
            h(
              "figcaption",
              {},
              "The same (filled), turned and scaled to fit the words alone (hollow). The squared lengths of the lines add up to the disparity."
            )
          )
        ),
        h("p", { class: "explorer-legend" }, ...GROUPS.map((group) => this.legendOf(group))),
        this.curvePicture(),
        (this.numbers = h("dl", { class: "explorer-numbers" })),
        h("div", { class: "explorer-controls" }, this.resetButton())
      );
      this.curves = ORDERS.map(() => []);
      this.trace();
    }

    // The curves come bit by bit, when the page has nothing better to do.
    trace() {
      const later = globalThis.requestIdleCallback || ((go) => setTimeout(go, 50));
      const at = ORDERS.map((_, sentence) => curve(sentence));
      const go = () => {
        const end = performance.now() + 8;
        while (performance.now() < end) {
          const sentence = this.curves.findIndex((values) => values.length < CURVE);
          if (sentence < 0) return this.refresh();
          this.curves[sentence].push(at[sentence](this.curves[sentence].length));
        }
        later(go);
      };
      later(go);
    }

    refresh() {
      for (const picture of this.pictures) picture.redraw();
    }

    draw() {
      this.measured = measure(this.state);
      const { disparity, shares, neighbours, weights, lengthRatio, order, places, pairMixed, pairAlone } =
        this.measured;
      this.numbers.replaceChildren(
        ...[
          ["disparity", number(disparity, 6), disparity, "disparity"],
          ["own-group neighbours", `${neighbours} of ${order.length}`, neighbours, "neighbours"],
          [
            "spread along axes 1, 2, 3",
            shares
              .slice(0, 3)
              .map((share) => `${number(100 * share, 1)} %`)
              .join(", "),
            shares.slice(0, 3).join(" "),
            "shares",
          ],
          ["length, meaning : position", `${number(lengthRatio, 2)} : 1`, lengthRatio, "lengthRatio"],
          [
            `red–wolf, ${places === 1 ? "side by side" : `${places} places apart`}`,
            number(pairMixed, 3),
            pairMixed,
            "pairMixed",
          ],
          ["red–wolf, meaning alone", number(pairAlone, 3), pairAlone, "pairAlone"],
        ].map(([term, shown, value, name]) =>
          h("div", {}, h("dt", {}, term), h("dd", { "data-name": name, "data-value": value }, shown))
        )
      );
      const change = pairMixed / pairAlone;
      return (
        `Meaning to position as ${proportion(weights)}: disparity ${number(disparity, 3)} from the words alone. ` +
        `The nearest neighbour is of the own group for ${neighbours} of ${order.length} words, and red and wolf are ` +
        `${number(change, 2)} times as far apart as by meaning alone.`
      );
    }

    legendOf(group) {
      const word = Object.keys(groups).find((one) => groups[one] === group);
      const drawn = svg(
        "svg",
        { class: "explorer-key", "aria-hidden": "true", viewBox: "0 0 16 16", width: 16, height: 16 },
        mark(word, 8, 8, 5, "filled")
      );
      return h("span", {}, drawn, group);
    }

    // Points in an equal scale, with room for their words at the sides.
    plane({ points, draw, describe }) {
      return this.picture({
        height: (width) => Math.min(360, Math.max(250, Math.round(0.9 * width))),
        draw: (picture) => {
          const all = points();
          const ends = [0, 1].map((axis) => [
            Math.min(...all.map((p) => p[axis])),
            Math.max(...all.map((p) => p[axis])),
          ]);
          const [wide, high] = ends.map(([low, top]) => top - low || 1);
          const unit = Math.min((picture.width - 84) / wide, (picture.height - 44) / high);
          const [middle, centre] = ends.map(([low, top]) => (low + top) / 2);
          const at = ([x, y]) => [picture.width / 2 + unit * (x - middle), picture.height / 2 - unit * (y - centre)];
          picture.add(
            svg("rect", {
              class: "explorer-frame",
              x: 0.5,
              y: 0.5,
              width: picture.width - 1,
              height: picture.height - 1,
              rx: 4,
            })
          );
          draw(picture, at);
        },
        describe,
      });
    }

    mixturePicture() {
      return this.plane({
        points: () => this.measured.layout,
        draw: (picture, at) => {
          const { layout, order } = this.measured;
          const points = layout.map(at);
          picture.add(
            svg("polyline", {
              class: "explorer-thread",
              points: points.map((point) => point.map((value) => value.toFixed(1)).join(",")).join(" "),
            })
          );
          order.forEach((word, i) => picture.add(mark(word, ...points[i], 4.5, "filled")));
          order.forEach((word, i) => picture.add(named(picture, points, i, word, i)));
        },
        describe: () =>
          `Scatter of the ${this.measured.order.length} words, weights ${proportion(this.measured.weights)}: ${this.measured.order.map((word, i) => `${word} ${i}`).join(", ")}.`,
      });
    }

    overlayPicture() {
      return this.plane({
        points: () => [...this.measured.still, ...this.measured.fitted],
        draw: (picture, at) => {
          const { still, fitted, order } = this.measured;
          const [alone, moved] = [still.map(at), fitted.map(at)];
          order.forEach((_, i) =>
            picture.add(
              svg("line", {
                class: "explorer-thread",
                x1: alone[i][0],
                y1: alone[i][1],
                x2: moved[i][0],
                y2: moved[i][1],
              })
            )
          );
          order.forEach((word, i) =>
            picture.add(mark(word, ...moved[i], 3.5, "filled"), mark(word, ...alone[i], 5, "hollow"))
          );
          order.forEach((word, i) => picture.add(named(picture, alone, i, word)));
        },
        describe: () =>
          `The layout of the mixture laid over that of the words alone, each word joined to itself: disparity ${number(this.measured.disparity, 3)}.`,
      });
    }

    // The disparity at every ratio; a press or a drag on it chooses one.
    curvePicture() {
      let drawn = null;
      const element = this.plot({
        x: {
          domain: [-1, 1],
          label: "meaning : position",
          marks: [-1, -Math.log10(3), 0, Math.log10(3), 1],
          show: (power) => proportion(weightsFor(10 ** power)),
        },
        y: { domain: [0, 1], label: "disparity", marks: [0, 0.5, 1] },
        height: 190,
        kind: "explorer-pick",
        draw: (picture) => {
          drawn = picture;
          const { x, y, box, add } = picture;
          const { sentence, ratio } = this.state;
          const here = Math.log10(ratio);
          const lineOf = (which) =>
            this.curves[which]
              .map((value, i) => `${i ? "L" : "M"}${x(Math.log10(ratioAt(i))).toFixed(2)} ${y(value).toFixed(2)}`)
              .join("");
          const traced = this.curves.every((values) => values.length === CURVE);
          if (traced) {
            add(
              svg("path", { class: "explorer-curve other", d: lineOf(1 - sentence) }),
              svg("path", { class: "explorer-curve", d: lineOf(sentence) })
            );
          }
          add(
            svg("line", { class: "explorer-chosen", x1: x(here), x2: x(here), y1: box.top, y2: box.bottom }),
            svg("circle", { class: "explorer-point", cx: x(here), cy: y(this.measured.disparity), r: 5 })
          );
        },
        describe: () =>
          `Line chart of the disparity against the ratio of the weights: high from 1 to 10 on, steep around 1 to 1, and near 0 at 10 to 1. Marked: ${proportion(this.measured.weights)}, ${number(this.measured.disparity, 3)}. The other sentence is dashed.`,
      });
      this.grab(element, (event) => {
        const at = event.clientX - element.getBoundingClientRect().left;
        const { left, right } = drawn.box;
        const power = Math.min(1, Math.max(-1, (2 * (at - left)) / (right - left) - 1));
        this.state.ratio = 10 ** Number(power.toFixed(3));
        this.update();
      });
      return element;
    }

    // Everything at full precision: the state and what is measured in it.
    get values() {
      return {
        ...this.state,
        ...this.measured,
        curves: this.curves,
        ratios: Array.from({ length: CURVE }, (_, i) => ratioAt(i)),
      };
    }
  }

  // A word beside its point: away from the nearest other point, and inwards where the frame is near.
  function named(picture, points, i, word, position) {
    const [x, y] = points[i];
    const others = points.filter((_, j) => j !== i);
    const nearest = others.reduce((best, point) => (apart(point, points[i]) < apart(best, points[i]) ? point : best));
    const inwards = x > picture.width - 0.25 * picture.width;
    const [dx, dy] = [inwards ? -7 : 7, nearest[1] < y ? 13 : -5];
    const label = svg(
      "text",
      { class: "explorer-word", x: x + dx, y: y + dy, "text-anchor": inwards ? "end" : "start" },
      word
    );
    if (position !== undefined) label.append(svg("tspan", { class: "explorer-small", dx: 3 }, String(position)));
    return label;
  }

  Explorer.mount("weight", "weight-explorer", Weight);
})();
