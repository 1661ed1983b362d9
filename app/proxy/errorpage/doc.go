// Package errorpage gives the proxy's own responses, such as 429 and 502, bodies of the
// operator's (H27). The status selects a page, and Accept its type: HTML, JSON, or the
// line of plain text that the proxy sends without pages (RFC 9110, section 12.5.1).
//
// A page is a file with a few placeholders such as {{status}}, and sections such as
// {{#retry_after}}...{{/retry_after}} for text that needs one. Their values are the
// proxy's own or, in the case of the request ID, checked against a short alphabet, and
// escaped for the type of the page: nothing else of the request gets into a page.
package errorpage
