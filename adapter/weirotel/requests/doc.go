/*
Package requests counts how long requests took for a reader of OpenTelemetry's SDK,
in place of the SDK's own histogram and for a small part of what that takes.

	counts := requests.New()
	reader := sdkmetric.NewPeriodicReader(exporter, sdkmetric.WithProducer(counts))
	t, err := weirotel.New(weirotel.Options{
		MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)),
		Requests:      counts.Recorder,
	})

What the reader gets is the same: http.server.request.duration with the same
attributes, buckets, least and most. It is worth it where many thousands of
requests per second are answered from memory. Most of what the SDK's Record takes (in
version 1.47) is to look at each attribute for maps with a key that is there twice.

It is not a whole instrument. Counts are cumulative, whatever temporality the
reader prefers; the buckets are those of the semantic conventions, whatever a View
says; the bound of 2,000 sets of attributes is fixed; and there are no exemplars.
*/
package requests
