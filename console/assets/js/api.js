// Requests to the console's own endpoints, all relative to the page.

import { sentence } from './sentences.js';

// The server's error when it refused a request.
export class Refusal extends Error {
  constructor(status, words, body) {
    super(words);
    this.status = status;
    this.body = body;
  }
}

// Goes to the login, which returns to the overview.
export function toLogin() {
  location.assign('login');
}

// path consists of encoded parts; body, if any, is sent as JSON.
export async function ask(path, { method = 'GET', body, signal } = {}) {
  let response;
  try {
    response = await fetch(path, {
      method,
      signal,
      cache: 'no-store',
      credentials: 'same-origin',
      headers: body === undefined ? {} : { 'Content-Type': 'application/json' },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (err) {
    if (err.name === 'AbortError') throw err;
    throw new Refusal(0, 'weir does not answer.');
  }
  if (response.status === 401) {
    toLogin();
    throw new Refusal(401, 'Your session has ended.');
  }
  const raw = await response.text();
  let value = null;
  try { value = raw ? JSON.parse(raw) : null; } catch { /* not JSON: the text is the message */ }
  if (!response.ok) {
    const words = (value && value.error) || raw.trim().slice(0, 300) || response.statusText;
    throw new Refusal(response.status, words ? sentence(words) : 'It responded with status ' + response.status + '.', value);
  }
  return value;
}

export const part = encodeURIComponent;
