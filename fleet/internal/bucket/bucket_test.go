package bucket

import "testing"

// T15: a bucket remembers a bounded number of corrections, the latest ones.
func TestT15_ABucketRemembersABoundedNumber(t *testing.T) {
	const keep = 8
	var b Bucket
	for range 3 * keep {
		m, _, ok := b.Spend(5000, 2)
		if !ok {
			t.Fatal("Spend of 2 is refused")
		}
		if back, _ := b.Correct(5000, 0, m, 2, 1, keep); back != 1 {
			t.Fatalf("Correct gives %d back; want 1", back)
		}
	}
	if n := len(b.latest); n != keep || b.latest[keep-1].seq != b.seq {
		t.Errorf("%d corrections are remembered; want the latest %d", n, keep)
	}
}
