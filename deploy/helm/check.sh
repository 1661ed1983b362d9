#!/bin/sh
# Lints and renders the chart, compares it with rendered.yaml, and validates that and the
# manifests in ../kubernetes. -update writes rendered.yaml. helm and kubeconform are built
# from the Go module proxy unless HELM and KUBECONFORM name them.
set -eu
cd "$(dirname "$0")"
export GOWORK=off
helm() { ${HELM:-go run helm.sh/helm/v4/cmd/helm@v4.3.1} "$@"; }
kubeconform() { ${KUBECONFORM:-go run github.com/yannh/kubeconform/cmd/kubeconform@v0.8.0} "$@"; }

helm lint --strict weir -f weir/ci/shop-values.yaml
new=$(mktemp)
trap 'rm -f "$new"' EXIT
helm template shop weir -f weir/ci/shop-values.yaml >"$new"
if [ "${1:-}" = -update ]; then cp "$new" rendered.yaml; fi
diff -u rendered.yaml "$new"

# PodMonitor belongs to the Prometheus Operator, and has no schema here.
kubeconform -strict -summary -skip PodMonitor \
	-schema-location 'schemas/{{.ResourceKind}}{{.KindSuffix}}.json' \
	rendered.yaml ../kubernetes/sidecar.yaml ../kubernetes/podmonitor.yaml

# Values that cannot work are refused, with the reason.
refuse() {
	want=$1
	shift
	if out=$(helm template shop weir "$@" 2>&1); then
		echo "helm template $*: it was accepted; want an error with $want" >&2
		exit 1
	fi
	case $out in
	*"$want"*) ;;
	*)
		echo "helm template $*: $out; want $want" >&2
		exit 1
		;;
	esac
}
refuse "config.upstreams is empty" --set admin.existingSecret=a
refuse "admin.existingSecret is empty" --set 'config.upstreams[0].servers[0]=http://a'
refuse "listen" -f weir/ci/shop-values.yaml --set 'config.listen[0].address=:80'
refuse "replica" -f weir/ci/shop-values.yaml --set replica=3
echo "the chart is in order"
