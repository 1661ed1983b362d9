// Package keep copies the files of a stopped server before the server is started on
// them, and puts them back if the start has lost any.
//
// The copy lies in [Folder], beside the folders that it is a copy of. Files that are
// only ever replaced or removed are hard links, so the copy of a large store takes
// milliseconds and no room. Files that are written in place are copied.
//
// The copy exists from the moment that its list is written until the list is removed.
// A process can be killed at any step in between: the next one finds the list, and
// [Back] puts everything back. Without a list there is no copy, and [Take] removes what
// is left of one.
package keep
