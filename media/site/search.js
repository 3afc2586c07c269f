// The search of the book. reading.js loads it, its styles, MiniSearch and the index when a reader
// first asks for it. MiniSearch ranks; which of the book's words a query means is decided here, because
// a reader's words are misspelt, unfinished, inflected, or not the ones that the book uses.
(() => {
  "use strict";

  const { element, announce, root } = window.bookPage;
  const { pages, sections } = window.bookSearchIndex;
  const SHOWN = 18; // results
  const AT_FIRST = 3; // of one page, before those of the others

  // ---- Words ----

  const SPELT = {
    "√": " sqrt ", "∞": " infinity ", "α": " alpha ", "β": " beta ", "γ": " gamma ", "δ": " delta ", "ε": " epsilon ",
    "η": " eta ", "θ": " theta ", "λ": " lambda ", "μ": " mu ", "π": " pi ", "σ": " sigma ", "τ": " tau ", "φ": " phi ",
  };
  const SIGNS = new RegExp(`[${Object.keys(SPELT).join("")}]`, "g");
  const WORD = /[\p{L}\p{N}]+(?:[-_.’'][\p{L}\p{N}]+)*/gu;
  const HUMP = /(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])/;
  const STOP = new Set(
    ("a about all am an and any are as at be been but by can could did do does for from get gets had has have how i if in " +
      "into is it its me my of on one or our please should so than that the their them there these they this those to " +
      "was we were what whats when where which who whose why will with would you your many much explain tell show " +
      "mean means meaning not no").split(" ")
  );

  const plain = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();

  // The inflections of English that a reader's word and the book's may differ by: masks, masking, masked.
  function stem(word) {
    let it = word;
    if (it.length > 4 && it.endsWith("ies")) it = `${it.slice(0, -3)}y`;
    else if (it.length > 3 && /[^sui]s$/.test(it)) it = it.slice(0, -1);
    const inflected = it.length > 5 && /^(.*[aeiouy].*)(?:ing|ed)$/.exec(it);
    if (inflected && inflected[1].length > 2) it = inflected[1].replace(/([bdgklmnprt])\1$/, "$1");
    it = it.replace(/(is|iz)(?:e|ation|er)?$/, (all, s) => (it.length > 5 ? "iz" : all)).replace(/our$/, "or");
    return it.length > 4 ? it.replace(/e$/, "") : it;
  }

  // The words of a text: {surface, at, length}, and compound ones in their parts too.
  function wordsOf(text) {
    const found = [];
    for (const match of text.matchAll(WORD)) {
      const whole = match[0].replace(/[’']s$/, "");
      const parts = whole.split(/[-_.’']/).flatMap((part) => part.split(HUMP));
      const place = { at: match.index, length: match[0].length };
      if (parts.length > 1) {
        for (const part of parts) if (part.length > 1) found.push({ surface: plain(part), ...place });
        found.push({ surface: plain(whole.replace(/[-_.’']/g, "")), ...place });
      } else if (whole.length > 1 || /\p{N}/u.test(whole)) {
        found.push({ surface: plain(whole), ...place });
      }
    }
    for (const match of text.matchAll(SIGNS)) {
      found.push({ surface: SPELT[match[0]].trim(), at: match.index, length: 1 });
    }
    return found;
  }

  // What the book says for what a reader may say. Each line: words that stand for one another.
  const SAME = `
    causal|look-ahead|lookahead|autoregressive|future
    padding|pad|padded|variable length
    masked|hidden|hide|ignored|ignore
    decoding|generation|generate|inference|sampling
    cache|caching|kv
    loss|cross-entropy|objective
    residual|skip connection|shortcut
    normalisation|layernorm|batchnorm|layer norm
    tokenizer|tokeniser|tokenization|wordpiece|subword|bpe
    parameters|weights|params|size
    cost|complexity|quadratic|memory|flops|speed|slow|fast
    positional|position|order|sequence
    rotary|rope
    alibi|linear bias
    sinusoid|sinusoidal|sine|wave
    divide|division|divisor|scale|scaled|scaling
    sqrt|root|square root
    variance|deviation|spread
    warm|warmup|warm-up|schedule
    feed-forward|ffn|mlp
    vocabulary|vocab|dictionary
    leak|leakage|cheating|cheat
    overfitting|overfit|early stopping
    classifier|classification|sentiment
    embedding|vector|representation
    pretrained|checkpoint|pretrain
    port|porting|migrate|migration|upgrade|convert
    error|fails|wrong|bug|broken|mistake
    save|load|export|serialize
    seed|reproducible|reproducibility|random
    pooling|mean|average
    sentence embedding|sentence vector|pooling
    nan|blind|nothing to see|all masked
    similarity|cosine|distance
    smoothing|label smoothing
    multiply|multiplied|product
    different|differs|compare
    install|rebuild|setup
    head|heads|multihead
    permutation|shuffled|shuffle|equivariance|equivariant
    cls|first token
    interpretable|interpretability|interpretation|explanation|story
    polysemy|bank|sense|ambiguous|context`;

  const synonyms = new Map(); // stem -> stems
  for (const line of SAME.trim().split("\n")) {
    const groups = line.trim().split("|").map((it) => [...new Set(wordsOf(it).map((word) => stem(word.surface)))]);
    for (const own of groups) {
      const key = own.join(" ");
      const others = groups.filter((other) => other !== own).flat().filter((it) => !own.includes(it));
      synonyms.set(key, [...new Set([...(synonyms.get(key) || []), ...others])]);
    }
  }

  // ---- The index ----

  const surfaces = new Map(); // word as the book spells it -> stem
  const terms = new Set();
  const spread = new Map(); // term -> in how many sections it stands
  const engine = new window.MiniSearch({
    fields: ["heading", "page", "text", "names", "label"],
    tokenize: (text) => text.split(" "),
    processTerm: (term) => term || null,
  });

  const entries = sections.map(([page, id, number, heading, kind, text, names]) => ({
    page, id, number, heading, kind, text, names,
  }));

  // The words of a text of the book as terms, each with its place.
  function learn(text) {
    return wordsOf(text).map(({ surface, at, length }) => {
      let term = surfaces.get(surface);
      if (term === undefined) {
        term = stem(surface);
        surfaces.set(surface, term);
        terms.add(term);
      }
      return { term, at, length };
    });
  }

  // What a section is worth beside others that hold the same words.
  function worth({ id, kind, page }) {
    if (kind === "reference") return 0.45;
    if (/-(?:remember|questions|reading)$/.test(id)) return 0.55;
    if (/\/exercises\./.test(pages[page][0])) return 0.3;
    return kind === "term" ? 1.15 : 1;
  }

  // In pieces of a few milliseconds, so that the page answers meanwhile.
  async function build() {
    const joined = (words) => words.map((word) => word.term).join(" ");
    let pause = performance.now() + 8;
    for (const [id, entry] of entries.entries()) {
      entry.said = learn(entry.text);
      entry.named = learn(entry.heading);
      engine.add({
        id,
        heading: joined(entry.named),
        page: joined(learn(pages[entry.page][2])),
        text: joined(entry.said),
        names: joined(learn(entry.names)),
        label: joined(learn(entry.kind === "reference" ? entry.text.slice(0, 90) : entry.id.replace(/^(?:sec|term)-/, ""))),
      });
      for (const term of new Set([...entry.named, ...entry.said].map((word) => word.term))) {
        spread.set(term, (spread.get(term) || 0) + 1);
      }
      if (performance.now() > pause) {
        await new Promise((resolve) => setTimeout(resolve));
        pause = performance.now() + 8;
      }
    }
    for (const surface of surfaces.keys()) lettersOf(surface);
    find("a first qestion"); // the engine's first run is its slowest
  }

  // ---- From a query to the terms of the index ----

  // Edits between two words, a swap of neighbours being one; more than `most` counts as most + 1.
  function edits(a, b, most) {
    if (Math.abs(a.length - b.length) > most) return most + 1;
    let before = [];
    let last = Array.from({ length: b.length + 1 }, (_, j) => j);
    for (let i = 1; i <= a.length; i++) {
      const row = [i];
      for (let j = 1; j <= b.length; j++) {
        row[j] = Math.min(row[j - 1] + 1, last[j] + 1, last[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1));
        if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) row[j] = Math.min(row[j], before[j - 2] + 1);
      }
      if (Math.min(...row) > most) return most + 1;
      [before, last] = [last, row];
    }
    return last[b.length];
  }

  // Which letters a word has, a bit for each: words far apart in these need no closer look.
  const bits = new Map();
  function lettersOf(word) {
    let found = bits.get(word);
    if (found === undefined) {
      found = 0;
      for (let i = 0; i < word.length; i++) found |= 1 << (word.charCodeAt(i) % 31);
      bits.set(word, found);
    }
    return found;
  }

  function ones(bits) {
    let count = 0;
    for (let left = bits; left; left &= left - 1) count++;
    return count;
  }

  const best = (found, count) => found.sort((a, b) => b.weight - a.weight).slice(0, count);

  // The terms that one word of the query may mean, each with its weight. Kept, because a query is
  // asked anew with each letter.
  const kept = new Map();
  function meantBy(surface, unfinished) {
    const key = surface + (unfinished ? "…" : "");
    if (!kept.has(key)) kept.set(key, meaningOf(surface, unfinished));
    return new Map(kept.get(key));
  }

  function meaningOf(surface, unfinished) {
    const term = surfaces.get(surface) || stem(surface);
    const meant = new Map();
    const add = (it, weight) => meant.set(it, Math.max(weight, meant.get(it) || 0));
    const known = terms.has(term);
    if (known) add(term, 1);
    for (const other of synonyms.get(term) || []) if (terms.has(other)) add(other, known ? 0.55 : 0.8);
    if ((unfinished || !known) && surface.length > 1) {
      const longer = [];
      for (const [other, its] of surfaces) {
        if (other.length > surface.length && other.startsWith(surface)) {
          longer.push({ term: its, weight: 0.75 * (surface.length / other.length) ** 0.5 });
        }
      }
      for (const one of best(longer, 8)) add(one.term, one.weight);
    }
    const most = surface.length < 4 ? 0 : surface.length < 7 ? 1 : 2;
    if (!known && most) {
      const near = [];
      const letters = lettersOf(surface);
      for (const [other, its] of surfaces) {
        if (Math.abs(other.length - surface.length) > most || ones(letters ^ lettersOf(other)) > 2 * most) continue;
        const count = edits(surface, other, most);
        if (count <= most) near.push({ term: its, weight: 0.8 / count - (surface[0] === other[0] ? 0 : 0.2) });
      }
      for (const one of best(near, 3)) add(one.term, one.weight);
    }
    for (const [it, weight] of [...meant]) {
      if (it === term) continue;
      for (const other of synonyms.get(it) || []) if (terms.has(other)) add(other, 0.4 * weight);
    }
    return meant;
  }

  // The words of a query that carry its question, each with what it may mean.
  function read(query) {
    const words = wordsOf(query.replace(/\bd k\b/gi, "d_k"));
    const telling = words.filter(({ surface }) => !STOP.has(surface));
    const unfinished = /[\p{L}\p{N}]$/u.test(query);
    const last = words.at(-1);
    const used = telling.length ? telling : words;
    const slots = [];
    for (const word of used) {
      if (slots.some((slot) => slot.surface === word.surface)) continue;
      slots.push({ surface: word.surface, meant: meantBy(word.surface, unfinished && word === last) });
    }
    // Two words of the query may have one name: "layer norm", "skip connection", "look ahead".
    for (let i = 0; i + 1 < slots.length; i++) {
      const pair = [slots[i], slots[i + 1]].map((slot) => stem(slot.surface)).join(" ");
      const joined = stem(slots[i].surface + slots[i + 1].surface);
      const others = [...(synonyms.get(pair) || []), ...(terms.has(joined) ? [joined] : [])];
      for (const other of others) {
        if (!terms.has(other)) continue;
        for (const slot of [slots[i], slots[i + 1]]) slot.meant.set(other, Math.max(0.6, slot.meant.get(other) || 0));
      }
    }
    return slots;
  }

  function find(query) {
    const slots = read(query);
    const weights = new Map();
    for (const { meant } of slots) {
      for (const [term, weight] of meant) weights.set(term, Math.max(weight, weights.get(term) || 0));
    }
    if (!weights.size) return { slots, hits: [] };
    const wanted = [...weights.keys()];
    const found = engine.search(wanted.join(" "), {
      boostTerm: (term) => weights.get(term),
      boost: { heading: 2.2, label: 1.4, page: 0.9, text: 1, names: 0.3 },
      combineWith: "OR",
      prefix: false,
      fuzzy: false,
    });
    // A section that answers the whole question comes before one that repeats a part of it; a word
    // that stands in few sections says more of the question than one that stands in most.
    const telling = slots.map(({ meant }) => {
      const [term] = best([...meant].map(([term, weight]) => ({ term, weight })), 1);
      return term ? Math.log(1 + entries.length / (spread.get(term.term) || 1)) : 1;
    });
    const whole = telling.reduce((sum, one) => sum + one, 0);
    const hits = found.map(({ id, score, queryTerms }) => {
      const has = new Set(queryTerms);
      let covered = 0;
      slots.forEach(({ meant }, slot) => {
        let most = 0;
        for (const [term, weight] of meant) if (has.has(term)) most = Math.max(most, weight);
        covered += most * telling[slot];
      });
      return { entry: entries[id], score: score * (covered / whole) ** 2 * worth(entries[id]) };
    });
    hits.sort((a, b) => b.score - a.score);
    // Words that stand together count for more: looked up where it can still change the order.
    const answers = new Map();
    slots.slice(0, 30).forEach(({ meant }, slot) => {
      for (const [term, weight] of meant) if (weight >= 0.5) answers.set(term, (answers.get(term) || 0) | (1 << slot));
    });
    for (const hit of hits.slice(0, 40)) hit.score *= 1 + 0.5 * together(hit.entry, slots, answers);
    hits.sort((a, b) => b.score - a.score);
    return { slots, hits: hits.slice(0, SHOWN) };
  }

  // The share of a query's neighbouring words that are neighbours in the section too. `answers`: term
  // -> the slots that it surely answers, a bit for each.
  function together(entry, slots, answers) {
    if (slots.length < 2) return 0;
    entry.terms ||= [...entry.named, ...entry.said].map(({ term }) => term);
    let found = 0; // one bit for each pair
    let [before, last] = [0, 0]; // the slots that the two terms before answer
    for (const term of entry.terms) {
      const here = answers.get(term) || 0;
      found |= (before | last) & (here >> 1);
      [before, last] = [last, here];
    }
    let pairs = 0;
    for (; found; found &= found - 1) pairs++;
    return pairs / (slots.length - 1);
  }

  // ---- What a result shows ----

  // The words among these that were looked for: [{at, length, slot, weight}], in the text's order.
  function marksIn(words, slots) {
    const sought = new Map(); // term -> what it answers
    slots.forEach(({ meant }, slot) => {
      for (const [term, weight] of meant) {
        if (weight > (sought.get(term)?.weight || 0)) sought.set(term, { slot, weight });
      }
    });
    const marks = [];
    for (const { term, at, length } of words) {
      const answer = sought.get(term);
      if (answer && marks.at(-1)?.at !== at) marks.push({ at, length, ...answer });
    }
    return marks.sort((a, b) => a.at - b.at);
  }

  function marked(text, marks, from = 0, to = text.length) {
    const parts = [];
    let at = from;
    for (const mark of marks) {
      if (mark.at < at || mark.at + mark.length > to) continue;
      parts.push(text.slice(at, mark.at), element("mark", {}, text.slice(mark.at, mark.at + mark.length)));
      at = mark.at + mark.length;
    }
    parts.push(text.slice(at, to));
    return parts;
  }

  // The stretch of a section's text that answers most of the query, from the beginning of a word.
  function context({ text, said }, slots) {
    const width = 190;
    const marks = marksIn(said, slots);
    let chosen = { value: 0, from: 0 };
    for (let i = 0; i < marks.length; i++) {
      const seen = new Map();
      for (let j = i; j < marks.length && marks[j].at + marks[j].length - marks[i].at < width - 40; j++) {
        seen.set(marks[j].slot, Math.max(marks[j].weight, seen.get(marks[j].slot) || 0));
      }
      const value = [...seen.values()].reduce((sum, weight) => sum + weight, 0);
      if (value > chosen.value + 1e-9) chosen = { value, from: marks[i].at };
    }
    let from = chosen.from;
    const sentence = Math.max(...[". ", "? ", ": "].map((end) => text.lastIndexOf(end, from)));
    if (from < 60) from = 0;
    else if (sentence >= 0 && from - sentence < 70) from = sentence + 2;
    else from = text.indexOf(" ", from - 40) + 1;
    let to = Math.min(text.length, from + width);
    if (to < text.length) to = Math.max(from + 60, text.lastIndexOf(" ", to));
    return [from ? "… " : "", ...marked(text, marks, from, to), to < text.length ? " …" : ""];
  }

  // ---- The dialog ----

  const status = element("p", { class: "search-status", id: "search-status" });
  const spoken = element("div", { class: "visually-hidden", role: "status" });
  const input = element("input", {
    type: "search", id: "search-input", class: "search-input", role: "combobox", autocomplete: "off", autocapitalize: "none",
    spellcheck: "false", enterkeyhint: "go", placeholder: "Search the book", "aria-label": "Search the book",
    "aria-autocomplete": "list", "aria-expanded": "false", "aria-controls": "search-results",
  });
  const list = element("div", { class: "search-results", id: "search-results", role: "listbox", "aria-label": "Sections found" });
  const close = element(
    "button", { type: "button", class: "icon-button search-close", "aria-label": "Close the search" },
    element("span", { class: "icon icon-close", "aria-hidden": "true" })
  );
  const keys = element("p", { class: "search-keys", "aria-hidden": "true" });
  for (const [key, does] of [["↑ ↓", "choose"], ["Enter", "open"], ["Esc", "close"]]) {
    keys.append(element("span", {}, element("kbd", {}, key), ` ${does}`));
  }
  const dialog = element("dialog", { class: "search-dialog", "aria-label": "Search" });
  dialog.append(
    element("div", { class: "search-head" }, element("span", { class: "search-glass", "aria-hidden": "true" }), input, close),
    element("div", { class: "search-body", tabindex: "-1" }, status, list),
    keys,
    spoken
  );
  document.body.append(dialog);

  let options = [];
  let active = -1;
  let speaking = 0;

  function activate(index, scroll = true) {
    options[active]?.setAttribute("aria-selected", "false");
    active = index;
    const option = options[active];
    if (!option) return input.removeAttribute("aria-activedescendant");
    option.setAttribute("aria-selected", "true");
    input.setAttribute("aria-activedescendant", option.id);
    if (scroll) {
      if (active === 0) option.closest(".search-body").scrollTop = 0;
      else option.scrollIntoView({ block: "nearest" });
    }
  }

  function option({ entry }, slots, count) {
    const [path] = pages[entry.page];
    const where = element("span", { class: "search-heading" });
    if (entry.number && entry.id) where.append(element("span", { class: "number" }, entry.number), " ");
    where.append(...marked(entry.heading, marksIn(entry.named, slots)));
    if (entry.kind !== "section") where.append(element("span", { class: "search-kind" }, KINDS[entry.kind]));
    return element(
      "a",
      {
        class: "search-result", id: `search-result-${count}`, role: "option", tabindex: "-1", "aria-selected": "false",
        href: `${root}${path}${entry.id ? `#${entry.id}` : ""}`,
      },
      where,
      element("span", { class: "search-context" }, ...context(entry, slots))
    );
  }
  const KINDS = { term: "Term", reference: "Source" };

  // One group for each page, in the order of its best result; what a page has beyond its share comes
  // after the best of all the others.
  function show(query) {
    const started = performance.now();
    const { slots, hits } = find(query);
    const [groups, rest] = [new Map(), new Map()];
    for (const hit of hits) {
      const { page } = hit.entry;
      const into = (groups.get(page)?.length || 0) < AT_FIRST ? groups : rest;
      into.set(page, [...(into.get(page) || []), hit]);
    }
    options = [];
    const parts = [...groups, ...rest].map(([page, group], at) => {
      const [, number, title] = pages[page];
      const label = element("div", { class: "search-page", id: `search-page-${at}`, role: "presentation" });
      if (at >= groups.size) label.append("More in ");
      if (number) label.append(element("span", { class: "number" }, number), " ");
      label.append(title);
      const made = group.map((hit) => {
        options.push(option(hit, slots, options.length));
        return options.at(-1);
      });
      return element("div", { class: "search-group", role: "group", "aria-labelledby": label.id }, label, ...made);
    });
    list.replaceChildren(...parts);
    input.setAttribute("aria-expanded", String(options.length > 0));
    activate(options.length ? 0 : -1);
    const asked = query.trim();
    status.hidden = options.length > 0;
    status.textContent = asked
      ? `Nothing in this book for “${asked}”. Fewer or other words may find it.`
      : "Ask as you would ask a person, or type a name: “why divide by sqrt d_k”, “causal mask”, “key_dim”.";
    say(asked ? (options.length ? `${options.length} ${options.length === 1 ? "result" : "results"}` : "No results") : "");
    dialog.dataset.milliseconds = (performance.now() - started).toFixed(1);
    dialog.dataset.query = query;
  }

  // Spoken once the typing rests, or a reader would hear of every letter.
  function say(text) {
    clearTimeout(speaking);
    speaking = setTimeout(() => (spoken.textContent = text), 400);
  }

  function go(option) {
    dialog.close();
    if (option) location.assign(option.href);
  }

  input.addEventListener("input", () => show(input.value));
  input.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    const last = options.length - 1;
    if (event.key === "Enter") {
      event.preventDefault();
      if (active < 0) return;
      // With a modifier the browser opens what is chosen where the reader wants it.
      if (event.ctrlKey || event.metaKey || event.shiftKey) options[active].dispatchEvent(new MouseEvent("click", event));
      else go(options[active]);
      return;
    }
    const to = {
      ArrowDown: active >= last ? 0 : active + 1,
      ArrowUp: active <= 0 ? last : active - 1,
      PageDown: Math.min(last, active + 5),
      PageUp: Math.max(0, active - 5),
    }[event.key];
    if (to === undefined || last < 0) return;
    event.preventDefault();
    activate(to);
  });
  list.addEventListener("click", (event) => {
    const chosen = event.target.closest("a");
    if (!chosen || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    go(chosen);
  });
  list.addEventListener("pointermove", (event) => {
    const chosen = options.indexOf(event.target.closest("a"));
    if (chosen >= 0 && chosen !== active) activate(chosen, false);
  });
  close.addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close(); // outside its frame
  });
  // Esc closes at once. In a search field it would first only empty the field.
  dialog.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    event.preventDefault();
    dialog.close();
  });
  dialog.addEventListener("close", () => clearTimeout(speaking));

  window.bookSearch = {
    ready: build(),
    find: (query) => find(query).hits.map(({ entry, score }) => [`${pages[entry.page][0]}#${entry.id}`, score]),
    open() {
      if (!dialog.open) dialog.showModal();
      input.focus();
      input.select();
      show(input.value);
    },
  };
})();
