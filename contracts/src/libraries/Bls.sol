// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

/// @title BLS signatures on BLS12-381, signature on G1 and key on G2 (drand's scheme bls-unchained-g1-rfc9380)
/// @notice Points are as EIP-2537 has them: coordinates of 64 bytes, the first 16 of which are zero; on G1 x and y, on G2
/// x and y with the real part first. A point has one such form only, and the precompiles refuse every other.
/// @dev Needs the precompiles of EIP-2537 (Prague). One that is handed a malformed point burns all gas that it is given,
/// so each gets a multiple of what it costs and no more.
library Bls {
    uint256 internal constant G1_BYTES = 128;
    uint256 internal constant G2_BYTES = 256;

    address private constant MODEXP = address(0x05);
    address private constant G1_ADD = address(0x0b);
    address private constant PAIRING = address(0x0f);
    address private constant MAP_FP_TO_G1 = address(0x10);

    /// @dev Three to five times what EIP-2537 and EIP-7883 ask: 500, 375, 5,500 and 102,900 for two pairs.
    uint256 private constant MODEXP_GAS = 5_000;
    uint256 private constant ADD_GAS = 5_000;
    uint256 private constant MAP_GAS = 25_000;
    uint256 private constant PAIRING_GAS = 350_000;

    /// @dev The field's prime, in 64 bytes as all field elements here.
    bytes private constant P =
        hex"000000000000000000000000000000001a0111ea397fe69a4b1ba7b6434bacd764774b84f38512bf6730d2a0f6b0f6241eabfffeb153ffffb9feffffffffaaab";

    /// @dev The generator of G2, negated.
    bytes private constant MINUS_G2 = hex"00000000000000000000000000000000024aa2b2f08f0a91260805272dc51051c6e47ad4fa403b02b4510b647ae3d1770bac0326a805bbefd48056c8c121bdb8"
        hex"0000000000000000000000000000000013e02b6052719f607dacd3a088274f65596bd0d09920b61ab5da61bbdc7f5049334cf11213945d57e5ac7d055d042b7e"
        hex"000000000000000000000000000000000d1b3cc2c7027888be51d9ef691d77bcb679afda66c73f17f9ee3837a55024f78c71363275a75d75d86bab79f74782aa"
        hex"0000000000000000000000000000000013fa4d4a0ad8b1ce186ed5061789213d993923066dddaf1040bc3ff59f825c78df74f2d75467e25e0f55f8a00fa030ed";

    /// @dev RFC 9380's domain of the scheme, and its length.
    bytes private constant DOMAIN = "BLS_SIG_BLS12381G1_XMD:SHA-256_SSWU_RO_NUL_\x2b";

    /// @notice Whether `signature` is the one signature of `message` under `key`.
    /// @param signature A point of G1, of which the pairing checks that it is one
    /// @param message What was signed
    /// @param key A point of G2 that `isKey`
    function verify(bytes memory signature, bytes32 message, bytes memory key) internal view returns (bool) {
        if (signature.length != G1_BYTES) return false;
        (bool isPoint, bytes memory hashed) = hashToG1(message);
        return isPoint && _pairsToOne(abi.encodePacked(signature, MINUS_G2, hashed, key));
    }

    /// @notice Whether this is a point of G2 other than infinity, on a chain that has the precompiles.
    function isKey(bytes memory key) internal view returns (bool) {
        if (key.length != G2_BYTES || keccak256(key) == keccak256(new bytes(G2_BYTES))) return false;
        // Infinity pairs to one with every point, and the precompile refuses what is none.
        return _pairsToOne(abi.encodePacked(new bytes(G1_BYTES), key));
    }

    /// @notice RFC 9380, hash_to_curve of the suite BLS12381G1_XMD:SHA-256_SSWU_RO_, with the scheme's domain.
    function hashToG1(bytes32 message) internal view returns (bool done, bytes memory point) {
        // expand_message_xmd to 128 bytes: two numbers of 64 for two field elements.
        bytes32 b0 = sha256(abi.encodePacked(bytes32(0), bytes32(0), message, uint16(128), uint8(0), DOMAIN));
        bytes32 b1 = sha256(abi.encodePacked(b0, uint8(1), DOMAIN));
        bytes32 b2 = sha256(abi.encodePacked(b0 ^ b1, uint8(2), DOMAIN));
        bytes32 b3 = sha256(abi.encodePacked(b0 ^ b2, uint8(3), DOMAIN));
        bytes32 b4 = sha256(abi.encodePacked(b0 ^ b3, uint8(4), DOMAIN));
        bytes memory left;
        (done, left) = _mapped(b1, b2);
        if (!done) return (false, left);
        bytes memory right;
        (done, right) = _mapped(b3, b4);
        if (!done) return (false, right);
        // Each map clears the cofactor, which gives the same sum as clearing that of the sum.
        return _call(G1_ADD, ADD_GAS, abi.encodePacked(left, right), G1_BYTES);
    }

    /// @dev The point that a number of 64 bytes, reduced, is mapped to.
    function _mapped(bytes32 high, bytes32 low) private view returns (bool done, bytes memory point) {
        bytes memory element;
        // (high, low)^1 mod P
        (done, element) = _call(
            MODEXP,
            MODEXP_GAS,
            abi.encodePacked(uint256(64), uint256(1), uint256(64), high, low, uint8(1), P),
            64
        );
        if (!done) return (false, element);
        return _call(MAP_FP_TO_G1, MAP_GAS, element, G1_BYTES);
    }

    function _pairsToOne(bytes memory pairs) private view returns (bool) {
        (bool done, bytes memory answer) = _call(PAIRING, PAIRING_GAS, pairs, 32);
        return done && uint256(bytes32(answer)) == 1;
    }

    /// @dev done: whether the precompile took the input. Where there is none the call answers with nothing.
    function _call(address precompile, uint256 gas_, bytes memory input, uint256 length)
        private
        view
        returns (bool done, bytes memory answer)
    {
        (done, answer) = precompile.staticcall{gas: gas_}(input);
        done = done && answer.length == length;
    }
}
