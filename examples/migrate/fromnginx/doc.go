// Package fromnginx has a caching proxy, with Nginx and with weir proxy.
package fromnginx
