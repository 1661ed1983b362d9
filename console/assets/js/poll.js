// Asks again and again, one at a time, until it is stopped; never while nobody
// looks.

// ask(signal) is awaited before the pause begins.
export function poll(milliseconds, ask, idle = () => false) {
  const ending = new AbortController();
  let timer = 0;
  const run = async () => {
    clearTimeout(timer);
    if (!document.hidden && !idle()) {
      try {
        await ask(ending.signal);
      } catch (err) {
        if (err.name !== 'AbortError') throw err;
      }
    }
    if (!ending.signal.aborted) timer = setTimeout(run, milliseconds);
  };
  run();
  return {
    stop() {
      ending.abort();
      clearTimeout(timer);
    },
    now: run,
  };
}
