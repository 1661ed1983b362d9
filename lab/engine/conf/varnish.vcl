# Varnish in front of one origin. Only the backend is set: everything else is
# left to the built-in VCL, as the documentation suggests. The lab fills in the
# parts in double braces.
#
# This has the following effects. Requests for the same object wait for one
# fetch and get its body as it arrives. An uncacheable response is remembered as
# such for two minutes (hit-for-miss). An expired object is kept for another 10
# seconds (default_grace), or as long as stale-while-revalidate allows, and
# served while a new one is fetched. Connections to the backend are kept for 60
# seconds.
vcl 4.1;

backend default {
	.host = "{{.OriginHost}}";
	.port = "{{.OriginPort}}";
{{- if .MaxCalls}}

	# The number of concurrent fetches. One more fails with 503: Varnish 7.1 has
	# no queue for them.
	.max_connections = {{.MaxCalls}};
{{- end}}
}
{{- if .Pass}}

# Forward each request, without a lookup and without waiting for another request.
sub vcl_recv {
	return (pass);
}
{{- end}}
