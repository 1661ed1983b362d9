// Remembers preferences from visit to visit, never data. Storage may be disabled.
export function read(name) {
  try { return localStorage.getItem('weir-' + name); } catch { return null; }
}

export function write(name, value) {
  try { localStorage.setItem('weir-' + name, value); } catch { /* then it is forgotten */ }
}

export function forget(name) {
  try { localStorage.removeItem('weir-' + name); } catch { /* it was not there */ }
}
