// Package writable reports why files cannot be written to, before a server is started on
// them or while it runs: permissions, owners, attributes, file systems that are read-only
// or have no room for another file, and file descriptors.
//
// It leaves no trace: nothing is written to a file, and where the system allows it no
// name is created.
package writable
