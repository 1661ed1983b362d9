// Package jcs brings JSON texts into the canonical form of RFC 8785 (JSON
// Canonicalization Scheme): texts that mean the same have the same bytes.
//
// It is stricter than most parsers, because two texts with the same form must mean the
// same to every program that reads them. A text with a duplicate name, a lone
// surrogate, invalid UTF-8, a byte order mark or a number beyond the range of a double
// has no canonical form. A number that a double cannot hold exactly has one, as RFC
// 8785 says, but makes the [Form] lossy: 0.1 and 0.10000000000000000001 have the same
// form, and a program that computes in decimals tells them apart.
//
// A text is read in one pass, without building a tree. Nesting, and the number of
// object members, are bounded.
package jcs
