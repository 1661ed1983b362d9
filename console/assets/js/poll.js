// Polls, one request at a time, until it is stopped; never while the page is
// hidden, and no repeats while idle returns true. The first request, and one
// made at once, has a waiting user, and is always sent.

// ask(signal) is awaited before the pause begins. A request made at once
// replaces the one in flight, whose response is then ignored. An error of ask
// goes to the browser's console, and polling continues.
export function poll(milliseconds, ask, idle = () => false) {
  let stopped = false;
  let request = null;
  let timer = 0;
  const run = async (wanted) => {
    clearTimeout(timer);
    if (request) request.abort();
    const mine = new AbortController();
    request = mine;
    try {
      if (!document.hidden && (wanted || !idle())) await ask(mine.signal);
    } catch (err) {
      if (err.name !== 'AbortError') throw err;
    } finally {
      if (request === mine && !stopped) timer = setTimeout(() => run(false), milliseconds);
    }
  };
  run(true);
  return {
    stop() {
      stopped = true;
      clearTimeout(timer);
      request.abort();
    },
    now: () => run(true),
  };
}
