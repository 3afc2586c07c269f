// The exercises: a form for every div.exercise-check, which says right, close (and which slip gives that
// value), or wrong with a hint; a list to tick for every div.exercise-teach; and what was solved so far.
// All stays in this browser. A plain script: it must run from file://, and under Quarto too.
(() => {
  "use strict";

  const STORE = "measured-transformer.exercises";

  const all = (selector, within = document) => [...within.querySelectorAll(selector)];

  const element = (tag, attributes = {}, ...children) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  };

  // ---- What was typed, as numbers ----

  // What cannot be understood; its message is a sentence for the reader.
  class Refusal extends Error {}

  const refuse = (sentence) => {
    throw new Refusal(sentence);
  };

  const RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹";
  const VULGAR = { "½": "(1/2)", "⅓": "(1/3)", "⅔": "(2/3)", "¼": "(1/4)", "¾": "(3/4)", "⅙": "(1/6)", "⅚": "(5/6)" };

  // One spelling for each sign, and no space that separates nothing.
  function plain(text) {
    return text
      .replace(/[\s\u200b\u2060]+/g, " ")
      .replace(/[−‐‑‒–﹣－]/g, "-")
      .replace(/[⁄∕÷]/g, "/")
      .replace(/[×·⋅∗]/g, "*")
      .replace(/\bsqrt\b/gi, "√")
      .replace(/[½⅓⅔¼¾⅙⅚]/g, (sign) => VULGAR[sign])
      .replace(/([⁺⁻]?)([⁰¹²³⁴⁵⁶⁷⁸⁹]+)/g, (_, sign, digits) =>
        `^${sign === "⁻" ? "-" : ""}${[...digits].map((digit) => RAISED.indexOf(digit)).join("")}`
      )
      .replace(/ *([*/^]) */g, "$1")
      .replace(/√ +/g, "√")
      .replace(/ +%/g, "%")
      .replace(/(^|[;,([] ?)([-+]) (?=[\d.,√(])/g, "$1$2")
      .trim();
  }

  function refuseForeign(text) {
    if (!text) refuse("Nothing is entered yet.");
    const word = text.replace(/([\d.,]) ?e ?([-+]?\d)/gi, "$1$2").match(/\p{L}+/u);
    if (word) refuse(`“${word[0]}” is not a number: write digits only, such as 1/6 or 0.25.`);
    const sign = text.match(/[^\d\s.,;:'’+\-*/^√%()[\]{}e]/iu);
    if (sign) refuse(`“${sign[0]}” cannot be read here: write digits only, such as 1/6 or 0.25.`);
  }

  // [1, 2] and (1, 2) -> 1, 2; but not (1/2), (1/3).
  function withoutBrackets(text) {
    const closing = { "[": "]", "(": ")", "{": "}" };
    while (closing[text[0]] && text.at(-1) === closing[text[0]]) {
      let depth = 0;
      const end = [...text].findIndex((sign) => {
        depth += "[({".includes(sign) - "])}".includes(sign);
        return depth === 0;
      });
      if (end < text.length - 1) break;
      text = text.slice(1, -1).trim();
    }
    return text;
  }

  const THOUSANDS = [
    /^\d{1,3}([,. '’])\d{3}(\1\d{3})+$/, // 63,082,496
    /^\d{1,3}([, '’])\d{3}(\1\d{3})*\.\d+$/, // 1,234.5
    /^\d{1,3}([. '’])\d{3}(\1\d{3})*,\d+$/, // 1.234,5
    /^\d{1,3}[ '’]\d{3}$/, // 4 224
  ];

  // A run of digits and separators -> the values it may have: 4,224 has two.
  function literal(digits) {
    const grouped = THOUSANDS.findIndex((form) => form.test(digits));
    if (grouped >= 0) {
      const comma = grouped === 2;
      return [Number(digits.replace(comma ? /[. '’]/g : grouped === 1 ? /[, '’]/g : /\D/g, "").replace(",", "."))];
    }
    if (!/^(\d+([.,]\d*)?|[.,]\d+)$/.test(digits)) refuse(`“${digits}” is not one number.`);
    const value = Number(digits.replace(",", "."));
    return /^[1-9]\d{0,2}[.,]\d{3}$/.test(digits) ? [value, Number(digits.replace(/\D/, ""))] : [value];
  }

  // One number: a fraction of products of powers and roots -> the values it may have.
  function candidates(text) {
    if (!text) refuse("A number is missing between two separators.");
    if (/[-+]\s*[-+]/.test(text)) refuse("There are two signs in a row.");
    const lone = text.match(/^([-+]?)(\d[\d.,'’ ]*)$/);
    const values = lone ? literal(lone[2]).map((value) => (lone[1] === "-" ? -value : value)) : [expression(text)];
    for (const value of values) {
      if (!Number.isFinite(value)) refuse("That number is too large to be meant.");
    }
    return values;
  }

  function expression(text) {
    let at = 0;
    const next = (sign) => text[at] === sign && (at += 1) > 0;
    const unread = () =>
      at < text.length
        ? refuse(`“${text}” cannot be read from “${text.slice(at)}” on.`)
        : refuse(`“${text}” ends where a number should follow.`);

    function base() {
      if (next("√")) {
        const value = base();
        return value < 0 ? refuse("A negative number has no square root here.") : Math.sqrt(value);
      }
      if (next("(")) {
        const value = fraction();
        return next(")") ? value : unread();
      }
      const found = text.slice(at).match(/^(\d[\d.,'’]*|[.,]\d+)( ?e ?([-+]?\d+))?/i);
      if (!found) return unread();
      at += found[0].length;
      const mantissa = literal(found[1])[0];
      const value = found[2] ? Number(`${mantissa}e${found[3]}`) : mantissa;
      if (value === 0 && mantissa !== 0) refuse("That number is too small to be meant.");
      return text[at] === "√" ? value * base() : value;
    }
    function power() {
      const sign = next("-") ? -1 : (next("+"), 1);
      const value = base();
      if (!next("^")) return sign * value;
      const exponent = text.slice(at).match(/^\(?([-+]?\d+)\)?/);
      if (!exponent) return unread();
      at += exponent[0].length;
      return sign * value ** Number(exponent[1]);
    }
    function product() {
      let value = power();
      while (next("*")) value *= power();
      return value;
    }
    function fraction() {
      const value = product();
      if (!next("/")) return value;
      const below = product();
      return below === 0 ? refuse("Nothing can be divided by zero.") : value / below;
    }
    const value = fraction();
    const share = next("%") ? value / 100 : value;
    return at < text.length ? unread() : share;
  }

  // Where a list may be cut, and how it was meant: the first way that gives as many as are asked for.
  function pieces(text, kind, count) {
    const list = withoutBrackets(text).replace(/[;,]\s*$/, "");
    if (/[[\]{}]/.test(list)) refuse("Brackets within brackets cannot be read here.");
    if (kind === "shape") return list.replace(/(\d)\*(?=\d)/g, "$1;").split(/\s*[;,]\s*|\s+/);
    const ways = list.includes(";") ? [/\s*;\s*/] : [/,\s+/, /\s+/, /,/, /[,\s]+/];
    const cut = ways.map((way) => list.split(way));
    return cut.find((found) => found.length === count) || cut.find((found) => found.length > 1) || [list];
  }

  // Text of an answer -> the lists of numbers it may mean. Throws a Refusal.
  function read(typed, kind, count) {
    const text = plain(typed);
    refuseForeign(text);
    if (kind === "number" || kind === "count") {
      const lone = withoutBrackets(text);
      const several = lone.split(/;|,\s|\s(?=[-+\d.√(])/).filter(Boolean).length;
      if (several > 1 && !THOUSANDS.some((form) => form.test(lone.replace(/^[-+]/, "")))) {
        refuse(`These are ${several} numbers; the question asks for one.`);
      }
      const values = candidates(lone);
      const whole = kind === "count" ? values.filter(Number.isInteger) : values;
      return whole.length ? whole.map((value) => [value]) : refuse("The answer is a whole number.");
    }
    const found = pieces(text, kind, count).map((piece) => candidates(piece.trim()));
    if (kind === "vector" && found.length !== count) {
      const told = found.length === 1 ? "This is one number" : `These are ${found.length} numbers`;
      refuse(`${told}; the question asks for ${count}. Separate them by semicolons: 1/4; 3/4.`);
    }
    const first = found.map((values) => values[0]);
    if (kind === "shape" && !first.every((value) => Number.isInteger(value) && value >= 0)) {
      refuse("A shape has whole numbers only, such as (2, 3, 5).");
    }
    return [first];
  }

  // ---- Right, close or wrong ----

  const numbers = (text) => text.split(" ").map(Number);

  const agrees = (values, wanted, within) =>
    values.length === wanted.length &&
    values.every((value, i) => Math.abs(value - wanted[i]) <= within + 1e-9 * Math.abs(wanted[i]));

  const shown = (values) =>
    values.map((value) => String(Number(value.toPrecision(6))).replace("-", "−").replace("e", "×10^")).join("; ");

  // The exercise's div -> what the script knows of it.
  function load(div) {
    const data = div.dataset;
    const listed = (prefix) => {
      const found = [];
      for (let i = 1; data[`${prefix}-${i}`] !== undefined; i += 1) found.push(data[`${prefix}-${i}`]);
      return found;
    };
    return {
      id: data.ledger,
      kind: data.kind,
      answer: numbers(data.answer),
      within: Number(data.within),
      hints: listed("hint"),
      slips: listed("slip").map((text, i) => ({ text, values: numbers(data[`slip-${i + 1}Value`]) })),
    };
  }

  // Lists of numbers that the answer may mean -> {verdict, text}; `tries` counts the wrong ones before.
  function judge(exercise, meanings, tries) {
    const { answer, within, slips, hints, kind } = exercise;
    const is = (wanted) => meanings.some((values) => agrees(values, wanted, within));
    if (is(answer)) return { verdict: "right", text: "Right." };
    const slip = slips.find(({ values }) => is(values));
    if (slip) return { verdict: "close", text: `Close. ${slip.text}` };
    const typed = meanings[0];
    const sorted = (values) => [...values].sort((a, b) => a - b);
    if (kind === "vector" && agrees(sorted(typed), sorted(answer), within)) {
      return { verdict: "close", text: "Close. These are the right numbers in another order." };
    }
    if (within && agrees(typed.map((value) => -value), answer, within)) {
      return { verdict: "close", text: "Close. The sign is the other one." };
    }
    const near = answer.map((value) => Math.max(5 * within, 0.02 * Math.abs(value)));
    if (within && typed.length === answer.length && typed.every((v, i) => Math.abs(v - answer[i]) <= near[i])) {
      return { verdict: "close", text: "Close, but not to the digits asked for. Round at the end only." };
    }
    const hint = hints[Math.min(tries, hints.length - 1)];
    const last = tries + 1 >= hints.length ? " The worked solution is folded below." : "";
    return { verdict: "wrong", text: `Wrong. Hint: ${hint}${last}` };
  }

  // ---- What this browser remembers ----

  const memory = { right: {}, notes: {}, ticks: {} };
  let remembers = true;

  function recall() {
    let stored = null;
    try {
      stored = localStorage.getItem(STORE);
    } catch {
      remembers = false; // storage is switched off
    }
    try {
      const kept = JSON.parse(stored) || {};
      for (const part of Object.keys(memory)) {
        if (kept[part] && typeof kept[part] === "object") Object.assign(memory[part], kept[part]);
      }
    } catch {
      // What is stored is not ours: begin anew.
    }
  }

  function remember() {
    try {
      localStorage.setItem(STORE, JSON.stringify(memory));
      remembers = true;
    } catch {
      remembers = false;
    }
  }

  function forget() {
    for (const part of Object.keys(memory)) memory[part] = {};
    try {
      localStorage.removeItem(STORE);
    } catch {
      remembers = false;
    }
  }

  // ---- The page ----

  // The text of a heading, without links that other scripts put into it.
  function headingText(section) {
    const heading = section?.querySelector("h2, h3, h4")?.cloneNode(true);
    for (const link of all("a", heading || document.createElement("p"))) link.remove();
    return heading ? heading.textContent.trim().replace(/\s+/g, " ") : "";
  }

  // A live region says a text again only when it was empty in between.
  function say(region, text, verdict = "") {
    region.textContent = "";
    delete region.dataset.verdict;
    setTimeout(() => {
      region.textContent = text;
      region.dataset.verdict = verdict;
    }, 40);
  }

  function textField(id, title, asked) {
    const label = element("label", { for: `${id}-input`, class: "exercise-label" }, "Your answer");
    const field = element("input", {
      id: `${id}-input`,
      type: "text",
      autocomplete: "off",
      autocapitalize: "off",
      spellcheck: "false",
      "aria-describedby": `${id}-ask`,
      "aria-label": `Your answer, ${title}`,
    });
    const ask = element("span", { id: `${id}-ask`, class: "exercise-ask" }, asked);
    return {
      parts: [label, ask, field],
      get: () => field.value,
      set: (value) => (field.value = value),
      mark: (wrong) => field.setAttribute("aria-invalid", String(wrong)),
    };
  }

  function optionField(id, title, options) {
    const set = element("fieldset", {}, element("legend", { class: "exercise-label" }, "Your answer"));
    set.setAttribute("aria-label", `Your answer, ${title}`);
    const radios = options.map((nodes, i) => {
      const radio = element("input", { type: "radio", name: id, value: String(i) });
      set.append(element("label", { class: "exercise-option" }, radio, element("span", {}, ...nodes)));
      return radio;
    });
    return {
      parts: [set],
      get: () => radios.find((radio) => radio.checked)?.value ?? "",
      set: (value) => radios.forEach((radio) => (radio.checked = radio.value === value)),
      mark: () => {},
    };
  }

  function setUpExercise(div, changed) {
    const exercise = load(div);
    const { id, kind } = exercise;
    const section = div.closest("section.level3") || div.closest("section");
    const title = headingText(section);
    const options = { "yes-no": [["Yes"], ["No"]], choice: all("li", div).map((item) => [...item.childNodes]) }[kind];
    const field = options ? optionField(id, title, options) : textField(id, title, div.textContent.trim());
    const badge = element("span", { class: "exercise-badge" });
    const feedback = element("p", { class: "exercise-feedback", role: "status", "aria-live": "polite" });
    const check = element("button", { type: "submit", "aria-label": `Check, ${title}` }, "Check");
    const hint = element("button", { type: "button", "aria-label": `Hint, ${title}` }, "Hint");
    const row = element("div", { class: "exercise-buttons" }, check, hint, badge);
    const form = element("form", { class: `exercise-form exercise-${kind}`, novalidate: "" }, ...field.parts, row, feedback);
    let tries = 0;
    let hinted = 0;

    const meanings = () => {
      if (!options) return read(field.get(), kind, exercise.answer.length);
      const chosen = field.get() || refuse("Nothing is chosen yet.");
      return [[kind === "choice" ? Number(chosen) + 1 : 1 - Number(chosen)]];
    };
    const show = () => {
      const solved = id in memory.right;
      badge.textContent = solved ? "✓ solved" : "";
      form.toggleAttribute("data-solved", solved);
    };
    const answer = () => {
      let result;
      try {
        result = judge(exercise, meanings(), tries);
      } catch (error) {
        if (!(error instanceof Refusal)) throw error;
        result = { verdict: "refused", text: error.message };
      }
      if (result.verdict === "wrong") tries += 1;
      if (result.verdict === "right") {
        memory.right[id] = field.get();
        remember();
        result.text = `Right. ${changed()}`;
      }
      field.mark(result.verdict !== "right");
      say(feedback, result.text, result.verdict);
      show();
    };
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      answer();
    });
    hint.addEventListener("click", () => {
      const place = Math.min(Math.max(hinted, tries), exercise.hints.length - 1);
      hinted = place + 1;
      say(feedback, `Hint: ${exercise.hints[place]}`, "hint");
    });

    const begin = () => {
      tries = hinted = 0;
      field.set(memory.right[id] ?? "");
      field.mark(false);
      feedback.textContent = "";
      delete feedback.dataset.verdict;
      show();
    };
    div.replaceChildren(form);
    begin();
    return { id, group: div.closest("section.level2"), begin };
  }

  // Explaining aloud: a field for notes and a list to tick, neither of which is judged.
  function setUpTeaching(div, i) {
    const id = div.id || `exercise-teach-${i}`;
    const boxes = all("li", div).map((item, place) => {
      const box = element("input", { type: "checkbox" });
      const label = element("label", { class: "exercise-option" }, box, element("span", {}, ...item.childNodes));
      item.replaceChildren(label);
      box.addEventListener("change", () => {
        memory.ticks[`${id}-${place}`] = box.checked;
        remember();
      });
      return box;
    });
    for (const list of all("ul", div)) list.classList.add("exercise-list");
    const notes = element("textarea", { id: `${id}-notes`, rows: "5" });
    const title = headingText(div.closest("section"));
    const label = element("label", { for: notes.id, class: "exercise-label" }, "Your notes: they stay in this browser");
    notes.setAttribute("aria-label", `${label.textContent}, ${title}`);
    notes.addEventListener("input", () => {
      memory.notes[id] = notes.value;
      remember();
    });
    div.append(label, notes);
    const begin = () => {
      notes.value = memory.notes[id] ?? "";
      boxes.forEach((box, place) => (box.checked = Boolean(memory.ticks[`${id}-${place}`])));
    };
    begin();
    return { begin };
  }

  function setUpProgress(div, state) {
    const total = element("p", { class: "exercise-total" });
    const groups = [...new Set(state.exercises.map(({ group }) => group))].map((group) => {
      const of = state.exercises.filter((exercise) => exercise.group === group);
      const link = element("a", { href: `#${group.id}` }, headingText(group));
      const count = element("span");
      return { of, count, item: element("li", {}, link, " ", count) };
    });
    const reset = element("button", { type: "button" }, "Forget my progress");
    const told = element("p", { class: "exercise-feedback", role: "status", "aria-live": "polite" });
    const solved = (exercises) => exercises.filter(({ id }) => id in memory.right).length;
    state.show = () => {
      const sentence = `${solved(state.exercises)} of ${state.exercises.length} right`;
      total.textContent = `${sentence}.${remembers ? "" : " This browser keeps nothing: leaving the page forgets it."}`;
      for (const { of, count } of groups) count.textContent = `${solved(of)} of ${of.length}`;
      return `${sentence}.`;
    };
    reset.addEventListener("click", () => {
      if (!confirm("Forget all answers, notes and ticks on this page?")) return;
      forget();
      for (const part of [...state.exercises, ...state.teaching]) part.begin();
      say(told, `Forgotten. ${state.show()}`, "reset");
    });
    div.replaceChildren(total, element("ul", {}, ...groups.map(({ item }) => item)), reset, told);
    state.show();
  }

  recall();
  const state = { exercises: [], teaching: [], show: () => "" };
  state.exercises = all(".exercise-check").map((div) => setUpExercise(div, () => state.show()));
  state.teaching = all(".exercise-teach").map(setUpTeaching);
  for (const div of all(".exercise-progress")) setUpProgress(div, state);
})();
