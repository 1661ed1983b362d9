// Asks again and again, one at a time, until it is stopped; never while nobody
// looks, and not again while idle says so. What is asked for the first time, or at
// once, is what somebody waits for, and is asked all the same.

// ask(signal) is awaited before the pause begins. What is asked anew at once takes
// the place of what is under way, whose answer is not waited for any more. An error
// of ask goes to the browser's console, and the next time is tried all the same.
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
