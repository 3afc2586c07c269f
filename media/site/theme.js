// Runs before the page is drawn, so that it does not flash in the theme that was not chosen.
(function (page) {
  page.classList.add("js");
  try {
    var theme = localStorage.getItem("theme");
    if (theme === "light" || theme === "dark") page.dataset.theme = theme;
  } catch (blocked) { /* without storage the system's preference holds */ }
})(document.documentElement);
