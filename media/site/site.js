// The pages' behaviour. Every page reads well without it; it adds formulas, copy buttons, the drawer,
// tabs, the theme button and the cards of the verified numbers. A plain script: it must run from file://.
(() => {
  "use strict";

  const page = document.documentElement;
  const root = page.dataset.root || "";
  const main = document.querySelector("main");
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];

  const element = (tag, attributes = {}, ...children) => {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  };

  const announce = (text) => {
    const announcer = document.getElementById("announcer");
    announcer.textContent = "";
    setTimeout(() => (announcer.textContent = text), 50);
  };

  // ---- Theme: the system's, until the reader chooses ----

  const systemIsDark = matchMedia("(prefers-color-scheme: dark)");

  function isDark() {
    return page.dataset.theme ? page.dataset.theme === "dark" : systemIsDark.matches;
  }

  function showTheme() {
    for (const button of all(".theme-button")) button.setAttribute("aria-pressed", String(isDark()));
    const paper = getComputedStyle(document.body).backgroundColor;
    for (const meta of all('meta[name="theme-color"]')) meta.content = paper;
  }

  function setUpTheme() {
    for (const button of all(".theme-button")) {
      button.addEventListener("click", () => {
        page.dataset.theme = isDark() ? "light" : "dark";
        try {
          localStorage.setItem("theme", page.dataset.theme);
        } catch {
          // Storage is switched off: the choice holds for this page only.
        }
        showTheme();
      });
    }
    systemIsDark.addEventListener("change", showTheme);
    showTheme();
  }

  // ---- Drawer with the chapters, on narrow screens ----

  function setUpDrawer() {
    const button = document.querySelector(".drawer-button");
    const drawer = document.getElementById("chapters");
    const shade = document.querySelector(".drawer-shade");
    const narrow = matchMedia("(max-width: 62.49rem)");
    const behind = [main, ...all(".topbar, .page-foot, .contents-side, .skip-link")];

    const open = (yes) => {
      drawer.classList.toggle("open", yes);
      shade.hidden = !yes;
      button.setAttribute("aria-expanded", String(yes));
      for (const part of behind) part.inert = yes;
    };
    const close = () => {
      open(false);
      button.focus();
    };
    button.addEventListener("click", () => {
      open(true);
      drawer.querySelector("[aria-current], a").focus();
    });
    drawer.querySelector(".drawer-close").addEventListener("click", (event) => {
      event.preventDefault();
      close();
    });
    shade.addEventListener("click", close);
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && drawer.classList.contains("open")) close();
    });
    narrow.addEventListener("change", () => open(false));

    const current = drawer.querySelector("[aria-current]");
    if (current) drawer.scrollTop = current.offsetTop - drawer.clientHeight / 2;
  }

  // ---- Formulas ----

  function drawFormulas() {
    const formulas = all(".math");
    if (formulas.length && !window.katex) console.error("media/katex/katex.min.js did not load");
    if (!window.katex) return;
    for (const formula of formulas) {
      const display = formula.classList.contains("display");
      const tex = formula.textContent.trim().replace(/^\\[[(]|\\[\])]$/g, "");
      try {
        katex.render(tex, formula, { displayMode: display, throwOnError: true, strict: "error" });
        formula.classList.add("drawn");
      } catch (error) {
        formula.classList.add("math-error");
        console.error(`formula not drawn: ${tex}: ${error.message}`);
      }
    }
  }

  // A long formula scrolls inside itself; so do wide tables and code, which then take the focus.
  function fitWideParts() {
    for (const formula of all(".math.inline.drawn")) {
      formula.classList.remove("wide");
      const drawn = formula.querySelector(".katex-html");
      const room = formula.closest("p, li, td, th, dd, figcaption, caption, h1, h2, h3, h4") || main;
      const tooWide = [...drawn.children].some((part) => part.offsetWidth > room.clientWidth);
      formula.classList.toggle("wide", tooWide);
    }
    for (const part of all("main pre, main .table-responsive, main .math.display, main .math.wide")) {
      if (part.scrollWidth > part.clientWidth + 1) {
        part.tabIndex = 0;
      } else {
        part.removeAttribute("tabindex");
      }
    }
  }

  // ---- Copy buttons ----

  async function copy(text) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      // No clipboard for pages that come from a file: select and copy as of old.
      const area = element("textarea", { class: "visually-hidden", readonly: "", "aria-hidden": "true" });
      area.value = text;
      document.body.append(area);
      area.select();
      const copied = document.execCommand("copy");
      area.remove();
      return copied;
    }
  }

  function addCopyButtons() {
    for (const code of all("main pre > code")) {
      const block = code.parentElement;
      if (block.closest(".cell-output, .code-with-filename-file")) continue;
      let frame = block.parentElement;
      if (!frame.matches("div.sourceCode")) {
        frame = element("div", { class: "code-block" });
        block.replaceWith(frame);
        frame.append(block);
      }
      const button = element("button", { type: "button", class: "code-copy" }, "Copy");
      button.setAttribute("aria-label", "Copy code");
      button.addEventListener("click", async () => {
        const copied = await copy(code.textContent.replace(/\n$/, ""));
        button.focus();
        button.textContent = copied ? "Copied" : "Press Ctrl+C";
        button.classList.add("done");
        announce(button.textContent);
        setTimeout(() => {
          button.textContent = "Copy";
          button.classList.remove("done");
        }, 2000);
      });
      frame.append(button);
    }
    // Numbers of lines are links without a name: leave them to the mouse.
    for (const line of all("pre.numberSource > code > span > a:first-child")) {
      line.tabIndex = -1;
      line.setAttribute("aria-hidden", "true");
    }
  }

  // ---- Headings that can be linked to, and the section that is being read ----

  function addAnchors() {
    for (const heading of all("main :is(h2, h3, h4, h5, h6)")) {
      if (heading.closest(".callout, .panel-tabset .tab-content > .tab-pane > h2")) continue;
      const holder = heading.id ? heading : heading.closest("section[id]");
      if (!holder || (holder !== heading && holder.querySelector("h2, h3, h4, h5, h6") !== heading)) continue;
      const name = `Link to section ${heading.textContent.trim()}`;
      heading.append(element("a", { class: "anchor-link", href: `#${holder.id}`, "aria-label": name }, "#"));
    }
  }

  function followReading() {
    const links = all(".contents-side a");
    const sections = links.map((link) => document.getElementById(decodeURIComponent(link.hash.slice(1))));
    const side = document.querySelector(".contents-side");
    const wide = all("main .column-margin, main .table-responsive");
    let current = null;
    let waiting = false;

    const update = () => {
      waiting = false;
      const atEnd = scrollY + innerHeight >= page.scrollHeight - 2 && scrollY > 0;
      const line = innerHeight * 0.25;
      const passed = sections.findLastIndex((section) => section && section.getBoundingClientRect().top <= line);
      const link = links[atEnd ? links.length - 1 : passed] || null;
      if (link !== current) {
        current?.removeAttribute("aria-current");
        link?.setAttribute("aria-current", "location");
        current = link;
        if (link && side.scrollHeight > side.clientHeight) {
          side.scrollTop = link.offsetTop - side.clientHeight / 2;
        }
      }
      // The contents make room for margin notes and wide tables that scroll through their place.
      const { left, bottom } = side.lastElementChild.getBoundingClientRect();
      const crossed = wide.some((part) => {
        const box = part.getBoundingClientRect();
        return box.right > left && box.top < bottom + 16 && box.bottom > 0;
      });
      side.classList.toggle("yielding", crossed);
    };
    const later = () => {
      if (!waiting) requestAnimationFrame(update);
      waiting = true;
    };
    if (!side) return;
    addEventListener("scroll", later, { passive: true });
    addEventListener("resize", later);
    update();
  }

  // ---- Tabs ----

  function setUpTabs() {
    for (const set of all(".panel-tabset")) {
      const tabs = all(":scope > .nav-tabs [role=tab]", set);
      const panels = all(":scope > .tab-content > .tab-pane", set);
      panels.forEach((panel, i) => (panel.dataset.title = tabs[i].textContent.trim()));
      const select = (index, focus) => {
        tabs.forEach((tab, i) => {
          tab.setAttribute("aria-selected", String(i === index));
          tab.tabIndex = i === index ? 0 : -1;
          panels[i].hidden = i !== index;
        });
        if (focus) tabs[index].focus();
        fitWideParts();
      };
      tabs.forEach((tab, i) => {
        tab.addEventListener("click", (event) => {
          event.preventDefault();
          select(i, false);
        });
        tab.addEventListener("keydown", (event) => {
          const last = tabs.length - 1;
          const to = {
            ArrowRight: i === last ? 0 : i + 1,
            ArrowLeft: i === 0 ? last : i - 1,
            Home: 0,
            End: last,
            " ": i,
          }[event.key];
          if (to === undefined) return;
          event.preventDefault();
          select(to, true);
        });
      });
      select(Math.max(0, tabs.findIndex((tab) => tab.getAttribute("aria-selected") === "true")), false);
    }
  }

  // A link to something in a closed fold or an unselected tab opens it.
  function showTarget() {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    for (let part = target; part; part = part.parentElement) {
      if (part.matches("details")) part.open = true;
      if (part.matches(".tab-pane[hidden]")) {
        document.querySelector(`[role=tab][aria-controls="${CSS.escape(part.id)}"]`)?.click();
      }
    }
    target.scrollIntoView();
  }

  // ---- Verified numbers ----

  function setUpClaims() {
    const card = element("span", { class: "claim-card", id: "claim-card", popover: "manual" });
    let shown = null;
    let timer = 0;
    let returning = false; // the focus goes back to a number whose card was just closed

    const hide = () => {
      clearTimeout(timer);
      if (!shown) return;
      shown.setAttribute("aria-expanded", "false");
      shown.removeAttribute("aria-controls");
      shown = null;
      card.hidePopover();
      card.remove();
    };
    const show = (claim) => {
      clearTimeout(timer);
      if (shown === claim) return;
      hide();
      const { claim: one, claims: several, over = "" } = claim.dataset;
      const ids = `${one || several} ${over}`.split(/[\s,]+/).filter(Boolean);
      const links = ids.map((id) =>
        element("a", { href: `${root}chapters/verified-numbers.html#number-${id}` }, id)
      );
      const [statement, ...terms] = (claim.dataset.note || "").split(/(?<=\.) (?=Expected )/);
      card.replaceChildren(
        element("span", { class: "claim-statement" }, statement),
        ...terms.map((term) => element("span", {}, term)),
        element("span", { class: "claim-links" }, ...links)
      );
      claim.after(card);
      card.showPopover();
      place(card, claim);
      claim.setAttribute("aria-expanded", "true");
      claim.setAttribute("aria-controls", card.id);
      shown = claim;
    };
    const hideSoon = () => {
      clearTimeout(timer);
      timer = setTimeout(() => {
        const focus = document.activeElement;
        if (focus !== shown && !card.contains(focus)) hide();
      }, 250);
    };

    for (const claim of all(".claim[data-claim], .claim-formula[data-claims]")) {
      if (claim.title) claim.dataset.note = claim.title;
      claim.removeAttribute("title");
      claim.tabIndex = 0;
      claim.setAttribute("role", "button");
      claim.setAttribute("aria-expanded", "false");
      claim.addEventListener("pointerenter", () => show(claim));
      claim.addEventListener("pointerleave", hideSoon);
      claim.addEventListener("focus", () => returning || show(claim));
      claim.addEventListener("click", () => show(claim));
      claim.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        if (shown === claim) card.querySelector("a").focus();
        else show(claim);
      });
    }
    card.addEventListener("pointerenter", () => clearTimeout(timer));
    card.addEventListener("pointerleave", hideSoon);
    document.addEventListener("focusin", ({ target }) => {
      if (shown && target !== shown && !card.contains(target)) hide();
    });
    document.addEventListener("pointerdown", ({ target }) => {
      if (shown && !shown.contains(target) && !card.contains(target)) hide();
    });
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && shown) {
        const claim = shown;
        const hadFocus = card.contains(document.activeElement);
        hide();
        if (!hadFocus) return;
        returning = true;
        claim.focus();
        returning = false;
      }
    });
    addEventListener("scroll", () => shown && place(card, shown), { passive: true, capture: true });
  }

  // Below its number, or above it where the window ends; always inside the window.
  function place(card, claim) {
    const number = claim.getClientRects()[0];
    const { offsetWidth: width, offsetHeight: height } = card;
    const left = Math.min(Math.max(12, number.left), page.clientWidth - width - 12);
    const below = number.bottom + 8;
    card.style.left = `${left}px`;
    card.style.top = `${below + height > innerHeight ? Math.max(8, number.top - height - 8) : below}px`;
  }

  // ---- Paper shows what the screen folds away ----

  function unfoldForPrint() {
    let closed = [];
    addEventListener("beforeprint", () => {
      closed = all("main details:not([open])");
      for (const fold of closed) fold.open = true;
    });
    addEventListener("afterprint", () => {
      for (const fold of closed) fold.open = false;
    });
  }

  drawFormulas();
  addCopyButtons();
  addAnchors();
  setUpTheme();
  setUpDrawer();
  setUpTabs();
  setUpClaims();
  unfoldForPrint();
  fitWideParts();
  followReading();
  showTarget();
  addEventListener("hashchange", showTarget);
  addEventListener("resize", fitWideParts);
  document.fonts.ready.then(fitWideParts);
})();
