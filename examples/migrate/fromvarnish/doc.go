// Package fromvarnish has a caching proxy, with Varnish and with weir proxy.
package fromvarnish
