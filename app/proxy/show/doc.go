// Package show provides the console's data about a gateway: a [console.Source] whose
// units are the routes.
package show
