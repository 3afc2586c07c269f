// What the explorers share: a frame with a heading, controls bound to one state, pictures in SVG that
// fit their width, and a sentence that says what is seen. A plain script: it must run from file://,
// and under Quarto too. An explorer is a class:
//
//   class Positions extends Explorer {
//     static heading = "…";                      // the region's name and visible heading
//     build(source) {                            // once; source is the div with the static content
//       this.state = { d: 64 };
//       this.append(this.controls(this.slider({ label: "Width d", min: 2, max: 512, step: 2,
//         read: () => this.state.d, write: (d) => (this.state.d = d) })));
//     }
//     draw() { return "one sentence"; }          // after every change; what it returns is the summary
//     get values() { return { … }; }             // full precision, for tests and the curious
//   }
//   Explorer.mount("positions", "positions-explorer", Positions);
//
// A control's `read` and `write` are all it knows of the state: after any change every control reads
// again, so nothing can disagree with what is drawn.
"use strict";

window.Explorer = (() => {
  const SVG = "http://www.w3.org/2000/svg";
  const QUIET = 700; // milliseconds without a change before a screen reader is told

  function fill(made, attributes, children) {
    for (const [name, value] of Object.entries(attributes)) {
      if (value === false || value === null || value === undefined) continue;
      made.setAttribute(name, value === true ? "" : value);
    }
    made.append(...children.flat().filter((child) => child !== null && child !== undefined));
    return made;
  }

  const h = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
  const svg = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

  // A place for a number. Left to itself an <output> is read aloud at each change; the summary is enough.
  const output = (attributes = {}) => h("output", { "aria-live": "off", ...attributes });

  // A number for people: a true minus, and no minus before a zero.
  function number(value, digits = 3) {
    const text = value.toFixed(digits);
    return /^-0\.?0*$/.test(text) ? text.slice(1) : text.replace("-", "−");
  }

  // Where a domain's number stands on a range of pixels.
  const scale = ([low, high], [from, to]) => (value) => from + ((value - low) / (high - low)) * (to - from);

  // Round numbers that divide a domain into about `count` parts.
  function ticks([low, high], count = 5) {
    const rough = (high - low) / count;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough);
    const marks = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i += 1) {
      marks.push(Number((i * step).toPrecision(12)));
    }
    return marks;
  }

  let ids = 0;
  const newId = () => `explorer-${(ids += 1)}`;

  class Explorer extends HTMLElement {
    static heading = "Explorer";

    connectedCallback() {
      if (this.summary) return;
      this.setAttribute("role", "region");
      this.setAttribute("aria-label", this.constructor.heading);
      this.bound = [];
      this.pictures = [];
      this.summary = h("p", { class: "explorer-summary" });
      this.announcer = h("p", { class: "explorer-hidden", role: "status" });
      this.append(h("h3", { class: "explorer-heading" }, this.constructor.heading));
      this.build(this.parentElement);
      this.append(this.summary, this.announcer);
      this.initial = structuredClone(this.state);
      this.show();
      this.watcher = new ResizeObserver(() => requestAnimationFrame(() => this.refit()));
      this.watcher.observe(this);
    }

    // ---- From a change to what is seen ----

    // Call this after changing the state otherwise than through a control.
    update() {
      this.show();
      clearTimeout(this.timer);
      this.timer = setTimeout(() => (this.announcer.textContent = this.summary.textContent), QUIET);
      this.dispatchEvent(new CustomEvent("explorer-change", { bubbles: true }));
    }

    reset() {
      this.state = structuredClone(this.initial);
      this.update();
    }

    show() {
      for (const read of this.bound) read();
      const said = this.draw();
      this.summary.replaceChildren(...[said].flat());
      for (const picture of this.pictures) picture.redraw();
    }

    refit() {
      for (const picture of this.pictures) {
        if (picture.element.clientWidth !== picture.width) picture.redraw();
      }
    }

    // Keep something in step with the state, now and after each change.
    bind(read) {
      this.bound.push(read);
    }

    // ---- Controls ----

    controls(...children) {
      return h("div", { class: "explorer-controls" }, ...children);
    }

    // A range with its number. `show` says the number, `enabled` whether it counts at present; `min`
    // and `max` may be functions, too.
    slider({ label, min, max, step = 1, read, write, show = String, enabled, name }) {
      const id = newId();
      const ends = { min, max };
      const input = h("input", { type: "range", id, step, "data-name": name });
      const shown = output({ for: id });
      input.addEventListener("input", () => {
        write(Number(input.value));
        this.update();
      });
      this.bind(() => {
        const value = read();
        for (const [end, at] of Object.entries(ends)) input[end] = typeof at === "function" ? at() : at;
        // The state may lie between two steps; the range then shows the nearer one.
        if (Number(input.value) !== value) input.value = value;
        input.setAttribute("aria-valuetext", show(value));
        input.disabled = enabled ? !enabled() : false;
        shown.value = show(value);
        shown.dataset.value = value;
      });
      return h("div", { class: "explorer-slider" }, h("label", { for: id }, label), input, shown);
    }

    // A switch: on or off, at once.
    toggle({ label, read, write, enabled, name }) {
      const input = h("input", { type: "checkbox", role: "switch", "data-name": name });
      input.addEventListener("change", () => {
        write(input.checked);
        this.update();
      });
      this.bind(() => {
        input.checked = read();
        input.disabled = enabled ? !enabled() : false;
      });
      return h("label", { class: "explorer-toggle" }, input, h("span", {}, label));
    }

    // One of several: options are [value, label] or [value, label, attributes of the label].
    // `read` may give a value that is none of them: then none is chosen.
    choice({ legend, options, read, write, kind = "", name }) {
      const group = newId();
      const inputs = options.map(([value, label, attributes = {}]) => {
        const input = h("input", { type: "radio", name: group, "data-name": name, "data-option": value });
        input.addEventListener("change", () => {
          write(value);
          this.update();
        });
        return [value, input, h("label", attributes, input, h("span", {}, label))];
      });
      this.bind(() => {
        for (const [value, input] of inputs) input.checked = value === read();
      });
      return h(
        "fieldset",
        { class: `explorer-choice ${kind}`.trim() },
        h("legend", {}, legend),
        h("div", { class: "explorer-options" }, ...inputs.map(([, , label]) => label))
      );
    }

    button(label, press, name) {
      const made = h("button", { type: "button", class: "explorer-button", "data-name": name }, label);
      made.addEventListener("click", press);
      return made;
    }

    resetButton(label = "Reset") {
      return this.button(label, () => this.reset(), "reset");
    }

    // ---- Pictures ----

    // An SVG in CSS pixels that is drawn again when its width changes. `height` is a number or a
    // function of the width; draw(picture) fills the empty picture. It is an image to screen readers:
    // `describe` says in words what it shows.
    picture({ height, draw, describe, kind = "" }) {
      const element = svg("svg", { class: `explorer-picture ${kind}`.trim(), role: "img" });
      const picture = { element, width: 0, height: 0, add: (...made) => element.append(...made) };
      picture.redraw = () => {
        picture.width = element.clientWidth;
        if (!picture.width) return; // not shown at present
        picture.height = typeof height === "function" ? height(picture.width) : height;
        element.setAttribute("viewBox", `0 0 ${picture.width} ${picture.height}`);
        element.style.height = `${picture.height}px`;
        element.setAttribute("aria-label", describe ? describe() : "");
        element.replaceChildren();
        draw(picture);
      };
      this.pictures.push(picture);
      return element;
    }

    // A picture with two axes. `x` and `y` are {domain, label, marks, show}, or functions that give
    // them; draw gets the picture with the scales `picture.x` and `picture.y`. `equal`: one unit is
    // as long on both axes.
    plot({ x, y, height, draw, describe, margin = {}, equal = false, kind = "" }) {
      const room = { top: 12, right: 14, bottom: 42, left: 50, ...margin };
      return this.picture({
        height,
        describe,
        kind,
        draw: (picture) => {
          const [across, up] = [x, y].map((axis) => (typeof axis === "function" ? axis() : axis));
          const box = {
            left: room.left,
            right: picture.width - room.right,
            top: room.top,
            bottom: picture.height - room.bottom,
          };
          if (equal) {
            const unit = Math.min(
              (box.right - box.left) / (across.domain[1] - across.domain[0]),
              (box.bottom - box.top) / (up.domain[1] - up.domain[0])
            );
            box.right = box.left + unit * (across.domain[1] - across.domain[0]);
            box.top = box.bottom - unit * (up.domain[1] - up.domain[0]);
          }
          picture.box = box;
          picture.x = scale(across.domain, [box.left, box.right]);
          picture.y = scale(up.domain, [box.bottom, box.top]);
          picture.add(axes(picture, across, up));
          draw(picture);
        },
      });
    }

    // Call `move` with each place of a press or a drag. A finger may yet want to scroll the page: it
    // counts once it goes sideways, or is lifted where it came down.
    grab(element, move) {
      let landed = null;
      element.addEventListener("pointerdown", (event) => {
        if (event.button !== 0) return;
        element.setPointerCapture(event.pointerId);
        if (event.pointerType === "touch") landed = event;
        else move(event);
      });
      element.addEventListener("pointermove", (event) => {
        if (!element.hasPointerCapture(event.pointerId)) return;
        if (landed) {
          const [across, along] = [event.clientX - landed.clientX, event.clientY - landed.clientY].map(Math.abs);
          if (across - along < 4) return;
        }
        landed = null;
        move(event);
      });
      element.addEventListener("pointerup", (event) => {
        if (landed) move(event);
        landed = null;
      });
      element.addEventListener("pointercancel", () => (landed = null));
    }

    // ---- Mounting ----

    // Put an explorer into each div that asks for it. Its static content stays in the document for
    // those without scripts; what has the class explorer-keep stays in sight.
    static mount(name, tag, kind) {
      customElements.define(tag, kind);
      for (const source of document.querySelectorAll(`.explorer[data-explorer="${name}"]`)) {
        whenWanted(source, () => {
          for (const part of [...source.children]) part.hidden = !part.matches(".explorer-keep");
          source.classList.add("explorer-live");
          source.append(document.createElement(tag));
        });
      }
    }
  }

  // Once: when the reader comes within a screen of a part, or stirs at all, or has read a while. Until
  // then nothing is computed, so that the page's text comes first.
  function whenWanted(part, start) {
    const signs = ["scroll", "pointermove", "pointerdown", "keydown"];
    const near = new IntersectionObserver((seen) => seen.some((one) => one.isIntersecting) && begin(), {
      rootMargin: "100% 0px",
    });
    const begin = () => {
      near.disconnect();
      clearTimeout(timer);
      for (const sign of signs) removeEventListener(sign, begin);
      start();
    };
    const timer = setTimeout(begin, 4000);
    for (const sign of signs) addEventListener(sign, begin, { passive: true });
    near.observe(part);
  }

  function axes({ box, x, y }, across, up) {
    const group = svg("g", { class: "explorer-axes", "aria-hidden": "true" });
    for (const mark of across.marks || ticks(across.domain, Math.max(2, Math.round((box.right - box.left) / 80)))) {
      group.append(
        svg("line", { class: "explorer-grid", x1: x(mark), x2: x(mark), y1: box.top, y2: box.bottom }),
        svg("text", { x: x(mark), y: box.bottom + 17, "text-anchor": "middle" }, (across.show || plain)(mark))
      );
    }
    for (const mark of up.marks || ticks(up.domain, Math.max(2, Math.round((box.bottom - box.top) / 50)))) {
      group.append(
        svg("line", { class: "explorer-grid", x1: box.left, x2: box.right, y1: y(mark), y2: y(mark) }),
        svg("text", { x: box.left - 8, y: y(mark), dy: "0.35em", "text-anchor": "end" }, (up.show || plain)(mark))
      );
    }
    if (across.label) {
      const middle = (box.left + box.right) / 2;
      group.append(
        svg("text", { class: "explorer-axis-name", x: middle, y: box.bottom + 36, "text-anchor": "middle" }, across.label)
      );
    }
    if (up.label) {
      const middle = (box.top + box.bottom) / 2;
      const turned = `translate(13 ${middle}) rotate(-90)`;
      group.append(svg("text", { class: "explorer-axis-name", transform: turned, "text-anchor": "middle" }, up.label));
    }
    return group;
  }

  const plain = (mark) => String(mark).replace("-", "−");

  Object.assign(Explorer, { h, svg, output, number, scale, ticks });
  return Explorer;
})();
