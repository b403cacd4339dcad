# svg.sh - look at pictures that are drawn.  Source it after test.sh.

# svg_is_well_formed FILE: elements are closed in the order in which they were opened, and
# texts hold no bare < or &.  (No XML parser is needed to build or test.)
svg_is_well_formed() {
    perl -0777 -ne '
        s/^<\?xml [^<>]*\?>\s*// or exit 1;
        exit 1 unless /^<svg xmlns="http:\/\/www\.w3\.org\/2000\/svg" /;
        s/&(amp|lt|gt|quot);//g;
        my @open;
        while (/<(\/?)([A-Za-z]+)((?:\s+[A-Za-z0-9:-]+="[^"<>&]*")*)\s*(\/?)>|([<>&])/g) {
            exit 1 if defined $5;
            next if $4;
            if (!$1) { push @open, $2 } elsif (!@open || pop (@open) ne $2) { exit 1 }
        }
        exit @open != 0' "$1"
}
