// SPDX-License-Identifier: MIT
pragma solidity ^0.8.28;

import {IRounds} from "../src/interfaces/IRounds.sol";
import {Protocol} from "../src/libraries/Protocol.sol";
import {BaseTest} from "./BaseTest.sol";

/// @dev Where windows start: everybody with a batch somewhere else, so that every batch has as many voters as any other,
/// but for one; and who has no batch wherever it is drawn.
contract PermutationTest is BaseTest {
    uint256 private constant ROUND = 12;
    uint256 private constant DRAWS = 4;

    function defaults() internal pure override returns (IRounds.Parameters memory p) {
        p = super.defaults();
        p.draws = uint16(DRAWS);
    }

    // ---- the function

    function test_tag_isTheProtocols() public pure {
        eq(Protocol.WINDOW, keccak256("sapo/2/window"));
    }

    function test_permuted_hitsEveryPositionOnceForEverySmallCount() public pure {
        for (uint256 count = 1; count <= 66; ++count) {
            _hitsAll(keccak256("beacon"), 1, count);
        }
    }

    function testFuzz_permuted_hitsEveryPositionOnce(bytes32 dealer, bool second, uint16 count) public pure {
        _hitsAll(dealer, second ? 2 : 1, count % 700 + 1);
    }

    /// @dev Also where 4**h is reached, exceeded by one, or missed by one, for counts that no test can walk through.
    function testFuzz_permuted_isAPosition(bytes32 dealer, uint8 bits, uint256 position) public pure {
        uint256 power = 1 << (bits % 128 + 1);
        for (uint256 count = power - 1; count <= power + 1; ++count) {
            uint256 at = position % count;
            uint256 start = Protocol.permuted(dealer, 1, at, count);
            yes(start < count);
            uint256 other = (at + 1) % count;
            if (other != at) yes(Protocol.permuted(dealer, 1, other, count) != start);
        }
    }

    /// @dev Written out once more, for a count that needs no second walk: four halves of a Feistel network.
    function testFuzz_permuted_isTheFeistelNetworkOfTheProtocol(bytes32 dealer, uint8 position) public pure {
        bytes32 key = keccak256(abi.encode(Protocol.WINDOW, dealer, uint256(2)));
        (uint256 left, uint256 right) = (position >> 4, position & 15);
        for (uint256 i = 0; i < 4; ++i) {
            uint256 mixed = uint256(keccak256(abi.encode(key, i, right))) % 16;
            (left, right) = (right, left ^ mixed);
        }
        eq(Protocol.permuted(dealer, 2, position, 256), 16 * left + right);
    }

    function test_permuted_isAnotherForAnotherBeaconOrStage() public pure {
        bytes32 dealer = keccak256("beacon");
        uint256 same = 0;
        uint256 sameStage = 0;
        for (uint256 position = 0; position < 100; ++position) {
            uint256 start = Protocol.permuted(dealer, 1, position, 100);
            if (start == Protocol.permuted(keccak256("other"), 1, position, 100)) ++same;
            if (start == Protocol.permuted(dealer, 2, position, 100)) ++sameStage;
        }
        vm.assertLe(same, 10);
        vm.assertLe(sameStage, 10);
    }

    function _hitsAll(bytes32 dealer, uint256 stage, uint256 count) private pure {
        bool[] memory hit = new bool[](count);
        for (uint256 position = 0; position < count; ++position) {
            uint256 start = Protocol.permuted(dealer, stage, position, count);
            no(hit[start]);
            hit[start] = true;
        }
    }

    // ---- the windows

    /// @dev Independent draws leave one batch in twenty short of voters, and grinding finds friends for another.
    /// forge-config: default.fuzz.runs = 24
    function testFuzz_windows_dealEachBatchToAsManyVoters(uint256 seed) public {
        uint256 count = 2 + seed % 25;
        _submitAll(count, seed);
        for (uint8 stage = 1; stage <= 2; ++stage) {
            uint256 most = stage == 1 ? DRAWS : 4 * DRAWS;
            enter(ROUND + (stage == 1 ? 1 : 4));
            rounds.poke();
            (uint256[] memory voters, bool[] memory started) = _deal(count, stage, most);
            for (uint256 position = 0; position < count; ++position) {
                yes(started[position]);
                if (count - 1 <= most) {
                    eq(voters[position], count - 1);
                } else {
                    yes(voters[position] + 1 >= most && voters[position] <= most + 1);
                }
            }
        }
    }

    /// @dev It learns from a window, too, but judges nothing.
    function test_windowOf_isDrawnForWhoHasNoBatch() public {
        _submitAll(9, 5);
        enter(ROUND + 1);
        bytes32 dealer = rounds.poke();
        for (uint256 i = 0; i < 20; ++i) {
            address guest = address(uint160(0x900_000 + i));
            IRounds.Window memory window = rounds.windowOf(guest, ROUND, 1);
            eq(window.start, Protocol.drawStart(dealer, guest, 1, 9));
            eq(window.own, 9);
            eq(window.size, DRAWS);
            eq(rounds.windowStart(guest, ROUND, 1), window.start);
        }
    }

    /// @dev Where the batch is in its round decides, and not whose it is.
    function test_windowOf_isPermutedForWhoHasABatch() public {
        _submitAll(9, 5);
        enter(ROUND + 1);
        bytes32 dealer = rounds.poke();
        for (uint256 position = 0; position < 9; ++position) {
            address node = rounds.batchAt(position).node;
            IRounds.Window memory window = rounds.windowOf(node, ROUND, 1);
            eq(window.own, position);
            eq(window.start, Protocol.permuted(dealer, 1, position, 9));
            eq(rounds.windowStart(node, ROUND, 1), window.start);
        }
    }

    /// @dev In an order that the seed gives.
    function _submitAll(uint256 count, uint256 seed) private {
        enter(ROUND - 1);
        for (uint256 i = 0; i < count; ++i) {
            address node = _node(i);
            vm.deal(node, BOND);
            register(node);
            commit(node, ROUND, 1);
        }
        enter(ROUND);
        for (uint256 i = 0; i < count; ++i) {
            submit(_node((seed % count + i) % count), ROUND, 0);
        }
    }

    /// @return voters How many windows each batch is in
    /// @return started Whether a window starts at a batch
    function _deal(uint256 count, uint8 stage, uint256 most)
        private
        view
        returns (uint256[] memory voters, bool[] memory started)
    {
        (voters, started) = (new uint256[](count), new bool[](count));
        for (uint256 i = 0; i < count; ++i) {
            IRounds.Window memory window = rounds.windowOf(_node(i), ROUND, stage);
            started[window.start] = true;
            uint256 left = count - 1 < most ? count - 1 : most;
            eq(window.size, left);
            for (uint256 position = window.start; left != 0; position = (position + 1) % count) {
                if (rounds.batchAt(position).node == _node(i)) continue;
                ++voters[position];
                --left;
            }
        }
    }

    function _node(uint256 i) private pure returns (address) {
        return address(uint160(0x50_000 + i));
    }
}
