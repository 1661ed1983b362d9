// Polls, one request at a time, until it is stopped. It never polls while the page is
// hidden. While idle returns true it does not repeat, but the first request and those of
// now() are still sent, because a user is waiting for them.

// ask(signal) is awaited before the pause begins. A request of now() replaces the one in
// flight, whose response is then ignored. An error of ask
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
