// Package fromvarnish tests a caching proxy, once with Varnish and once with weir proxy.
package fromvarnish
