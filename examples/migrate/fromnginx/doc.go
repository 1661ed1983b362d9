// Package fromnginx tests a caching proxy, once with Nginx and once with weir proxy.
package fromnginx
