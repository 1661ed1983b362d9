// Runs before the first paint, so that a page never flashes in the other theme.
(function () {
  let theme = '';
  try { theme = localStorage.getItem('weir-theme') || ''; } catch { /* storage may be disabled */ }
  if (theme !== 'light' && theme !== 'dark') {
    theme = matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
  }
  document.documentElement.dataset.theme = theme;
})();
