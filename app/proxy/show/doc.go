// Package show makes what the console shows of a gateway: a [console.Source],
// whose units are the routes.
package show
