package rfc9111_test

import (
	"testing"

	"github.com/weir-go/weir/internal/rfc9111"
)

// H10: no field that a signature may cover is changed.
func TestH10_SignaturesCoverFields(t *testing.T) {
	const aws = "AWS4-HMAC-SHA256 Credential=AKID/20260101/eu/s3/aws4_request, SignedHeaders=host;range;x-amz-date, Signature=ab"
	for _, tt := range []struct {
		name   string
		fields []string
		query  string
		field  string
		want   bool
	}{
		{"nothing", nil, "", "Range", true},
		{"Basic", []string{"Authorization", "Basic eA=="}, "", "Range", true},
		{"Bearer", []string{"Authorization", "bearer x"}, "", "If-None-Match", true},
		{"a key without a scheme", []string{"Authorization", "sk-1"}, "", "Range", true},
		{"a cookie and a key", []string{"Cookie", "a=b", "X-Api-Key", "k"}, "", "Range", true},
		{"SigV4 with the field", []string{"Authorization", aws}, "", "Range", false},
		{"SigV4 without the field", []string{"Authorization", aws}, "", "If-None-Match", true},
		{"SigV4 in the query, with it", nil, "X-Amz-SignedHeaders=host%3Brange&X-Amz-Signature=x", "Range", false},
		{"SigV4 in the query, without it", nil, "X-Amz-SignedHeaders=host", "Range", true},
		{"RFC 9421 with the field", []string{"Signature-Input", `sig1=("@method" "range");created=1`, "Signature", "sig1=:x:"}, "", "Range", false},
		{"RFC 9421 without the field", []string{"Signature-Input", `sig1=("@method" "host");created=1`, "Signature", "sig1=:x:"}, "", "Range", true},
		{"an unknown scheme", []string{"Authorization", "Hawk id=1"}, "", "Range", false},
		{"a signature of its author", []string{"X-Acme-Signature", "x"}, "", "Range", false},
		{"Signature alone", []string{"Signature", "x"}, "", "Range", false},
	} {
		q := rfc9111.ReadRequest(fields(tt.fields...))
		if got := q.MayChange(tt.query, tt.field); got != tt.want {
			t.Errorf("%s: MayChange(%s) = %v; want %v", tt.name, tt.field, got, tt.want)
		}
	}
}
