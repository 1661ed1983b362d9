// Package browser displays pages as a user sees them: in headless Chromium.
//
// A [Page] records the browser's messages and every requested URL, so that a test can
// require that there are no messages and no foreign URLs. Chromium is Debian's
// package of that name, which package engine finds or installs like its other tools.
package browser
