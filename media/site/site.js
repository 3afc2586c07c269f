// The pages' behaviour. Every page reads well without it; it adds copy buttons, the drawer, tabs and the
// theme button. reading.js builds upon it. A plain script: it must run from file://.
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
    if (!page.dataset.theme) return; // the page's own two colours hold
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
    if (current && !narrow.matches) drawer.scrollTop = current.offsetTop - drawer.clientHeight / 2;
  }

  // ---- What is too wide scrolls inside itself, and then takes the focus ----

  const WIDE_PARTS = "main :is(pre, .table-responsive, .math.display)";

  // All is read before anything is written, so that the browser lays out the page once.
  function fitWideParts(parts) {
    const inline = parts.filter((part) => part.matches(".math.inline"));
    const tooWide = inline.map((formula) => {
      const room = formula.closest("p, li, td, th, dd, figcaption, caption, h1, h2, h3, h4") || main;
      return formula.firstElementChild.getBoundingClientRect().width > room.clientWidth;
    });
    inline.forEach((formula, i) => formula.classList.toggle("wide", tooWide[i]));
    const scrolling = parts.filter((part) => part.matches(`${WIDE_PARTS}, .math.wide`));
    const scrolls = scrolling.map((part) => part.scrollWidth > part.clientWidth + 1);
    scrolling.forEach((part, i) => {
      if (scrolls[i]) part.tabIndex = 0;
      else part.removeAttribute("tabindex");
    });
    for (const formula of inline) if (!formula.matches(".wide")) formula.removeAttribute("tabindex");
  }

  // Wide parts are measured when the reader comes within a screen of them.
  function watchParts() {
    const near = new Set();
    const watch = new IntersectionObserver(
      (entries) => {
        const come = [];
        for (const { target, isIntersecting } of entries) {
          if (isIntersecting) come.push(target);
          if (isIntersecting) near.add(target);
          else near.delete(target);
        }
        fitWideParts(come);
      },
      { rootMargin: "100% 0px" }
    );
    for (const part of all(`${WIDE_PARTS}, main .math.inline`)) watch.observe(part);
    const again = () => fitWideParts([...near]);
    addEventListener("resize", again);
    document.fonts.addEventListener("loadingdone", again);
  }

  // The others follow in idle moments, once the reader stirs or has read a while: the page's search
  // finds what is laid out, and who walks by keyboard needs to know what scrolls.
  function finishParts() {
    const sections = all("main > section.level2");
    const parts = all(`${WIDE_PARTS}, main .math.inline`);
    const idle = window.requestIdleCallback || ((then) => setTimeout(then, 50));
    const some = () => {
      if (sections.length) sections.shift().classList.add("laid-out");
      else fitWideParts(parts.splice(0, 8));
      if (sections.length || parts.length) idle(some);
      else page.dataset.finished = "";
    };
    const signs = ["scroll", "pointermove", "pointerdown", "keydown", "beforeprint"];
    const begin = () => {
      clearTimeout(timer);
      for (const sign of signs) removeEventListener(sign, begin);
      idle(some);
    };
    const timer = setTimeout(begin, 4000);
    for (const sign of signs) addEventListener(sign, begin, { passive: true });
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
    const roomy = matchMedia("(min-width: 80rem)"); // as in site.css
    let current = null;
    let waiting = false;

    const update = () => {
      waiting = false;
      if (!roomy.matches) return;
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
    later();
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
    page.classList.add("whole");
    for (let part = target; part; part = part.parentElement) {
      if (part.matches("details")) part.open = true;
      if (part.matches(".tab-pane[hidden]")) {
        document.querySelector(`[role=tab][aria-controls="${CSS.escape(part.id)}"]`)?.click();
      }
    }
    target.scrollIntoView();
  }

  // ---- Paper shows what the screen folds away ----

  function unfoldForPrint() {
    let closed = [];
    addEventListener("beforeprint", () => {
      for (const image of all("main img")) image.loading = "eager";
      closed = all("main details:not([open])");
      for (const fold of closed) fold.open = true;
    });
    addEventListener("afterprint", () => {
      for (const fold of closed) fold.open = false;
    });
  }

  window.bookPage = { element, all, announce, copy, root };

  watchParts();
  finishParts();
  addCopyButtons();
  addAnchors();
  setUpTheme();
  setUpDrawer();
  setUpTabs();
  unfoldForPrint();
  followReading();
  showTarget();
  addEventListener("hashchange", showTarget);
})();
