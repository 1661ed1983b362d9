//go:build !overwrite

package listen

// overwritesHeaders: see fastConn.keepHeader.
const overwritesHeaders = false
