// What helps in reading: cards that show where a link leads, what a verified number rests on and what a
// term means; links to figures, tables, formulas and listings; the way back to the top; the door to the
// search. Runs after site.js. What it needs beyond itself is loaded when a reader first asks for it.
(() => {
  "use strict";

  const { element, all, announce, copy, root } = window.bookPage;
  const page = document.documentElement;
  const main = document.querySelector("main");

  const loading = new Map();

  // A script or style sheet of the site, once. From the disk too, where nothing can be fetched.
  function load(path) {
    if (!loading.has(path)) {
      const made = path.endsWith(".css")
        ? element("link", { rel: "stylesheet", href: root + path })
        : element("script", { src: root + path });
      made.async = false; // scripts run in the order in which they were asked for
      loading.set(
        path,
        new Promise((resolve, reject) => {
          made.addEventListener("load", resolve);
          made.addEventListener("error", () => {
            loading.delete(path);
            reject(new Error(`${path} did not load`));
          });
          document.head.append(made);
        })
      );
    }
    return loading.get(path);
  }

  // ---- Search ----

  const SEARCH = ["search.css", "vendor/minisearch.min.js", "search-index.js", "search.js"];

  async function prepareSearch() {
    await Promise.all(SEARCH.map((name) => load(`media/site/${name}`)));
    await window.bookSearch.ready;
  }

  async function openSearch() {
    try {
      await prepareSearch();
      window.bookSearch.open();
    } catch (error) {
      announce("The search could not be loaded");
      console.error(error.message);
    }
  }

  function setUpSearch() {
    const prepare = () => prepareSearch().catch(() => {});
    for (const button of all(".search-button")) {
      button.addEventListener("click", openSearch);
      button.addEventListener("pointerenter", prepare, { once: true });
      button.addEventListener("focus", prepare, { once: true });
    }
    addEventListener("keydown", (event) => {
      const typing = event.target.closest?.("input, textarea, select, [contenteditable]");
      const slash = event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey;
      const letter = event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey;
      if (!slash && !letter) return;
      event.preventDefault();
      openSearch();
    });
  }

  // ---- Cards ----

  const NUMBERS = ".claim[data-claim], .claim-formula[data-claims]";
  const card = element("div", { class: "claim-card", popover: "manual", role: "group" });
  let shown = null; // what the card is about
  let wanted = null; // what it will be about once its content is here
  let timer = 0;
  let returning = false; // the focus goes back to what a card was closed for
  let touching = false;

  const isNumber = (part) => part.matches(NUMBERS);

  function hide() {
    clearTimeout(timer);
    wanted = null;
    if (!shown) return;
    if (isNumber(shown)) {
      shown.setAttribute("aria-expanded", "false");
      shown.removeAttribute("aria-controls");
    } else {
      shown.removeAttribute("aria-describedby");
    }
    shown = null;
    card.hidePopover();
    card.remove();
  }

  function hideSoon() {
    clearTimeout(timer);
    timer = setTimeout(() => {
      const focus = document.activeElement;
      if (focus !== shown && !card.contains(focus)) hide();
    }, 250);
  }

  function display(part, kind, id, name, ...content) {
    hide();
    card.className = `claim-card ${kind}`;
    card.id = id;
    card.setAttribute("aria-label", name);
    card.replaceChildren(...content);
    part.after(card);
    card.showPopover();
    place(card, part);
    if (card.scrollHeight > card.clientHeight + 1) card.tabIndex = 0;
    else card.removeAttribute("tabindex");
    shown = part;
  }

  function showNumber(number) {
    const { claim: one, claims: several, over = "" } = number.dataset;
    const ids = `${one || several} ${over}`.split(/[\s,]+/).filter(Boolean);
    const links = ids.map((id) =>
      element("a", { href: `${root}chapters/verified-numbers.html#number-${id}` }, id)
    );
    const [statement, ...terms] = (number.dataset.note || "").split(/(?<=\.) (?=Expected )/);
    display(
      number, "number-card", "claim-card", "Verified number",
      element("span", { class: "claim-statement" }, statement),
      ...terms.map((term) => element("span", {}, term)),
      element("span", { class: "claim-links" }, ...links)
    );
    number.setAttribute("aria-expanded", "true");
    number.setAttribute("aria-controls", card.id);
  }

  // Where a link leads, as seen from the site's root, or "" when that is outside.
  function target(link) {
    const base = new URL(root || "./", location.href);
    const to = new URL(link.href, location.href);
    if (to.origin !== base.origin || !to.pathname.startsWith(base.pathname)) return "";
    return decodeURIComponent(to.pathname.slice(base.pathname.length) + to.hash);
  }

  // Kind and nodes of the card of a link, or null for a link that has none.
  async function contentOf(link) {
    await load("media/site/cards.js");
    const found = window.bookCards[target(link)];
    if (!found) return null;
    const holder = element("template");
    holder.innerHTML = found[1];
    for (const name of ["href", "src"]) {
      for (const part of all(`[${name}]`, holder.content)) {
        const address = part.getAttribute(name);
        if (!/^[a-z]+:/i.test(address)) part.setAttribute(name, root + address);
      }
    }
    return { kind: found[0], nodes: [...holder.content.children] };
  }

  // By touch the card also says how to follow the link that it stands for.
  async function showTarget(link, byTouch = false) {
    wanted = link;
    let content = null;
    try {
      content = await contentOf(link);
    } catch (error) {
      console.error(error.message);
    }
    if (wanted !== link) return;
    if (!content) {
      hide();
      if (byTouch) location.assign(link.href);
      return;
    }
    const { kind, nodes } = content;
    if (byTouch) {
      const words = GO[kind] || `Go to ${link.textContent.trim()}`;
      nodes.push(element("p", { class: "card-go" }, element("a", { href: link.href }, words)));
    }
    display(link, `link-card ${kind}-card`, "link-card", `Preview: ${link.textContent.trim()}`, ...nodes);
    for (const image of all("img", card)) image.addEventListener("load", () => shown === link && place(card, link));
    place(card, link);
    if (kind === "term" || kind === "reference") link.setAttribute("aria-describedby", card.id);
  }
  const GO = { term: "Go to the glossary", reference: "Go to the references" };

  function show(part, byTouch = false) {
    clearTimeout(timer);
    if (shown === part || wanted === part) return;
    if (isNumber(part)) showNumber(part);
    else showTarget(part, byTouch);
  }

  // What an event is about, if that has a card: a verified number, or a link inside the text.
  function subject(event) {
    const part = event.target.closest?.(`${NUMBERS}, main a[href]`);
    if (!part || card.contains(part)) return null;
    if (isNumber(part)) return part;
    return part.matches(".anchor-link, .back-to-top, nav a, pre a, .footnote-back") || !target(part) ? null : part;
  }

  function setUpCards() {
    for (const number of all(NUMBERS)) {
      if (number.title) number.dataset.note = number.title;
      number.removeAttribute("title");
      number.tabIndex = 0;
      number.setAttribute("role", "button");
      number.setAttribute("aria-expanded", "false");
    }
    main.addEventListener("pointerover", (event) => {
      const part = subject(event);
      if (!part || event.pointerType === "touch") return;
      clearTimeout(timer);
      // A link is often only crossed on the way to another place.
      if (isNumber(part)) show(part);
      else if (part !== shown) timer = setTimeout(() => show(part), 180);
    });
    main.addEventListener("pointerout", (event) => {
      const part = subject(event);
      if (!part || part.contains(event.relatedTarget) || event.pointerType === "touch") return;
      if (wanted === part && shown !== part) wanted = null;
      hideSoon();
    });
    document.addEventListener("pointerdown", (event) => {
      touching = event.pointerType === "touch";
      if (shown && !shown.contains(event.target) && !card.contains(event.target)) hide();
    });
    document.addEventListener("focusin", (event) => {
      const { target: focused } = event;
      if (shown && focused !== shown && !card.contains(focused)) hide();
      const part = subject(event);
      if (!part || returning || (touching && !isNumber(part))) return;
      if (isNumber(part) || part.matches(":focus-visible")) show(part);
    });
    main.addEventListener("click", (event) => {
      const part = subject(event);
      if (!part) return;
      if (isNumber(part)) {
        show(part);
      } else if (touching && shown !== part) {
        event.preventDefault();
        show(part, true);
      } else {
        hide();
      }
      touching = false;
    });
    document.addEventListener("keydown", (event) => {
      touching = false;
      if (event.key === "Escape") {
        clearTimeout(timer);
        wanted = null;
        if (!shown) return;
        const part = shown;
        const hadFocus = card.contains(document.activeElement);
        hide();
        if (!hadFocus) return;
        returning = true;
        part.focus();
        returning = false;
        return;
      }
      const part = subject(event);
      if (!part || !isNumber(part) || (event.key !== "Enter" && event.key !== " ")) return;
      event.preventDefault();
      if (shown === part) card.querySelector("a").focus();
      else show(part);
    });
    card.addEventListener("pointerenter", () => clearTimeout(timer));
    card.addEventListener("pointerleave", hideSoon);
    card.addEventListener("click", (event) => event.target.closest("a") && setTimeout(hide));
    addEventListener("scroll", () => shown && place(card, shown), { passive: true, capture: true });
  }

  // Below what it is about, or above it where the window ends; always inside the window.
  function place(card, part) {
    const line = part.getClientRects()[0];
    if (!line) return;
    const { offsetWidth: width, offsetHeight: height } = card;
    const left = Math.min(Math.max(12, line.left), page.clientWidth - width - 12);
    const below = line.bottom + 8;
    const above = line.top - height - 8;
    const top = below + height <= innerHeight || above < 8 ? Math.min(below, Math.max(8, innerHeight - height - 8)) : above;
    card.style.left = `${left}px`;
    card.style.top = `${top}px`;
  }

  // ---- Links to a place ----

  const PLACES = "figure[id^=fig-], div[id^=tbl-], div[id^=lst-], [id^=eq-]:has(> .eq-number)";

  function addPlaceLinks() {
    for (const place of all(PLACES, main)) {
      const formula = place.querySelector(":scope > .eq-number");
      const caption = formula || all("figcaption", place).at(-1);
      if (!caption) continue;
      const number = formula ? `Equation ${formula.textContent}` : caption.textContent.trim().split(":")[0];
      const link = element("a", { class: "anchor-link place-link", href: `#${place.id}` }, "#");
      link.setAttribute("aria-label", `Link to ${number}`);
      caption.append(link);
    }
  }

  // A link to a place works as any link does; clicked, it is copied in full as well.
  function setUpPlaceLinks() {
    addPlaceLinks();
    main.addEventListener("click", async (event) => {
      const link = event.target.closest(".anchor-link");
      if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
      const copied = await copy(link.href);
      if (document.activeElement !== link) link.focus({ preventScroll: true });
      const says = copied ? "Link copied" : "Copy the link from the address bar";
      announce(says);
      link.dataset.says = says;
      setTimeout(() => delete link.dataset.says, 2000);
    });
  }

  // ---- Back to the top ----

  function setUpTop() {
    const link = document.querySelector(".back-to-top");
    if (!link) return;
    const update = () => link.classList.toggle("away", scrollY < 1.5 * innerHeight);
    addEventListener("scroll", update, { passive: true });
    addEventListener("resize", update);
    update();
  }

  setUpSearch();
  setUpCards();
  setUpPlaceLinks();
  setUpTop();
})();
